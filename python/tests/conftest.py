"""Every test has eight virtual devices."""

import os

os.environ["SHOAL_NUM_CPU_DEVICES"] = "8"
