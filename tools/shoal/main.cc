// The tool `shoal`: starts programs in many processes, tells about this machine, and looks at checkpoints.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "agent.h"
#include "checkpoint.h"
#include "doctor.h"
#include "explain_hang.h"
#include "run.h"

namespace {

/// Opens closed standard streams on /dev/null, so that no pipe gets their numbers.
void fill_standard_streams() {
  for (int number = 0; number <= 2; ++number) {
    if (fcntl(number, F_GETFD) < 0) open("/dev/null", O_RDWR);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace shoal::tool;
  fill_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);

  CLI::App app("Shoal's tool: starts programs in many processes, and tells about this machine.", "shoal");
  app.set_version_flag("--version", SHOAL_VERSION);
  app.require_subcommand(1);

  RunOptions options;
  bool no_prefix = false;
  CLI::App* const run_command =
      app.add_subcommand("run", "Runs a program in N processes:  shoal run -n 4 -- program args");
  run_command->footer(
      "Each process gets a group of its own, and its output is printed line by line. Standard input goes to process 0, "
      "if it "
      "is no terminal and the process runs here. When one fails the others are stopped, and its exit code is that of "
      "this "
      "command.\nSHOAL_SSH names another command than ssh, SHOAL_REMOTE_TOOL the path of this tool on the other "
      "hosts.");
  run_command->add_option("-n", options.num_processes, "The number of processes; default with --hosts: all slots")
      ->check(CLI::Range(1, 1 << 20));
  run_command->add_option("--devices-per-process", options.devices_per_process, "The number of devices of each process")
      ->check(CLI::Range(1, 131072));
  run_command->add_option("--hosts", options.hosts_file,
                          "Run on the hosts of this file, lines \"host slots=K\", over ssh");
  run_command->add_option("--log-dir", options.log_dir, "Write what each process prints to DIR/process_N.log, too");
  run_command
      ->add_option("--env", options.environment,
                   "Set a variable, or pass it on to other hosts; SHOAL_* are passed on without")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false);
  run_command->add_option("--grace", options.grace, "Seconds from SIGTERM to SIGKILL when the others are stopped")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  run_command
      ->add_option("--restarts", options.restarts,
                   "How often to start the job again after a process failed; it goes on from its last checkpoint")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  run_command->add_flag(
      "--elastic", options.elastic,
      "Let the others go on when a process fails (elastic::run); with --restarts it is started again");
  run_command->add_option("--min-processes", options.min_processes, "With --elastic: end the job when fewer are left")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  run_command->add_flag("--no-prefix", no_prefix, "Do not begin each line with the number of its process");
  run_command->add_flag("--json", options.json, "Print lines and events as JSON objects, one a line");
  run_command->prefix_command();  // what follows the options is the program

  bool as_json = false;
  CLI::App* const doctor_command =
      app.add_subcommand("doctor", "Looks at this machine, and says what Shoal sees of it");
  doctor_command->add_flag("--json", as_json, "Print a JSON object");

  std::string folder;
  CLI::App* const explain_command = app.add_subcommand(
      "explain-hang", "Tells where the processes of a job stood, and where they went different ways");
  explain_command->add_option("DIR", folder, "The folder that SHOAL_FLIGHT_RECORDER named when the job ran")
      ->required();
  explain_command->add_flag("--json", as_json, "Print a JSON object");

  CheckpointOptions checkpoint;
  CLI::App* const checkpoint_command =
      app.add_subcommand("checkpoint", "Looks at checkpoints, checks them, and makes safetensors files of them");
  checkpoint_command->require_subcommand(1);
  const auto add_checkpoint_command = [&](const char* name, const char* what, const char* which_step) {
    CLI::App* const command = checkpoint_command->add_subcommand(name, what);
    command->add_option("DIR", checkpoint.folder, "The folder of the checkpoints")->required();
    command->add_option("--step", checkpoint.step, which_step);
    return command;
  };
  CLI::App* const list_command =
      add_checkpoint_command("ls", "Lists the checkpoints of a folder", "List the arrays of this one");
  list_command->add_flag("--json", checkpoint.json, "Print JSON");
  CLI::App* const verify_command = add_checkpoint_command(
      "verify", "Reads checkpoints, and compares them with their checksums", "Only this one; default: all");
  CLI::App* const export_command =
      add_checkpoint_command("export", "Writes one safetensors file, with each array whole", "Default: the last");
  export_command->add_option("FILE", checkpoint.file, "The file to write")->required();
  export_command->add_flag("--paths", checkpoint.keep_paths,
                           "Name arrays as \"['layers'][0].w\", by their paths, and not as \"layers.0.w\"");

  CLI::App* const agent_command = app.add_subcommand("agent", "The part of `shoal run` on other hosts");

  // What follows "--" is the program's, whatever it looks like.
  char** const separator =
      std::find_if(argv, argv + argc, [](const char* text) { return std::string_view(text) == "--"; });
  CLI11_PARSE(app, static_cast<int>(separator - argv), argv);
  try {
    if (run_command->parsed()) {
      options.prefix = !no_prefix;
      options.arguments = run_command->remaining();
      // A program that was already named has a "--" of its own.
      char** const rest = separator + (options.arguments.empty() && separator != argv + argc ? 1 : 0);
      options.arguments.insert(options.arguments.end(), rest, argv + argc);
      if (options.arguments.empty())
        throw std::runtime_error("the program is missing:  shoal run -n 4 -- program args");
      return run(options);
    }
    if (doctor_command->parsed()) return run_doctor(as_json);
    if (explain_command->parsed()) return explain_hang(folder, as_json);
    if (list_command->parsed()) return list_checkpoints(checkpoint);
    if (verify_command->parsed()) return verify_checkpoints(checkpoint);
    if (export_command->parsed()) return export_checkpoint(checkpoint);
    if (agent_command->parsed()) return run_agent();
  } catch (const std::exception& error) {
    fmt::print(stderr, "shoal {}: {}\n", app.get_subcommands().front()->get_name(), error.what());
  }
  return 1;
}
