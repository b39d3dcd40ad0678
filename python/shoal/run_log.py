"""What a program measures while it runs, as a table, as curves, and as one page to look at."""

from shoal._core.run_log import RunLog, progress_bar
