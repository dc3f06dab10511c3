// SPDX-License-Identifier: Apache-2.0
// ftlm-run: carries out a plan.
#include "tools/ftlm-run/Commands.h"

#include "runtime/base/Error.h"

#include <fmt/format.h>

using namespace ftlm;

/// A TOML file of options. Keys at its top are options of the command that runs, those in a section
/// are of the command of its name.
class OptionsFile : public CLI::ConfigTOML {
public:
  explicit OptionsFile(const CLI::App &program) : app(program) {}

  std::vector<CLI::ConfigItem> from_config(std::istream &input) const override {
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(input);
    std::string file = app.get_option("--config")->as<std::string>();
    for (CLI::ConfigItem &item : items) {
      if (item.name == "++" || item.name == "--") // the edges of a section
        continue;
      if (item.parents.empty())
        item.parents = {app.get_subcommands().front()->get_name()};
      const CLI::App *command = commandOf(item);
      if (!command)
        throw refusal(file + ": [" + item.parents.front() + "] is no command of ftlm-run");
      const CLI::Option *option = command->get_option_no_throw("--" + item.name);
      if (!option)
        option = command->get_option_no_throw(item.name);
      if (!option || !option->get_configurable())
        throw refusal(file + ": '" + item.name + "' is no option of " + command->get_name() +
                      "; see ftlm-run " + command->get_name() + " --help");
    }
    return items;
  }

private:
  static CLI::ConfigError refusal(const std::string &what) {
    return CLI::ConfigError(what, CLI::ExitCodes::ConfigError);
  }
  const CLI::App *commandOf(const CLI::ConfigItem &item) const {
    if (item.parents.size() == 1)
      for (const CLI::App *command : app.get_subcommands([](const CLI::App *) { return true; }))
        if (command->get_name() == item.parents.front())
          return command;
    return nullptr;
  }

  const CLI::App &app;
};

int main(int argc, char **argv) {
  CLI::App app("ftlm-run: carries out a plan that ftlmc wrote: trains, evaluates, generates");
  app.set_version_flag("--version", "ftlm-run " FTLM_VERSION);
  app.require_subcommand(1);
  std::vector<std::pair<std::string, Command>> commands = {
      {"train", addTrain(app)},   {"evaluate", addEvaluate(app)}, {"generate", addGenerate(app)},
      {"step", addStep(app)},     {"inspect", addInspect(app)},   {"tokenize", addTokenize(app)},
      {"doctor", addDoctor(app)},
  };
  app.set_config("--config", "", "TOML file with options, by their names without the dashes");
  app.config_formatter(std::make_shared<OptionsFile>(app));
  app.allow_config_extras(CLI::config_extras_mode::error);
  for (CLI::App *command : app.get_subcommands([](const CLI::App *) { return true; })) {
    command->fallthrough();
    command->footer(
        "--config FILE.toml takes options from a file: `lr = 1e-3`, `data = [\"a.txt\"]`; "
        "keys may stand in a section [" +
        command->get_name() + "]. The command line wins.");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::BadInput);
  }
  try {
    for (auto &[name, command] : commands)
      if (app.got_subcommand(name))
        return command();
  } catch (const Error &error) {
    fmt::print(stderr, "ftlm-run: error: {}\n", error.what());
    return static_cast<int>(error.code);
  } catch (const std::exception &error) {
    fmt::print(stderr, "ftlm-run: error: {}\n", error.what());
    return static_cast<int>(ExitCode::Failed);
  }
  return 0;
}
