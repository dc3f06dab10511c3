// SPDX-License-Identifier: Apache-2.0
// ftlm-run: carries out a plan.
#include "tools/ftlm-run/Commands.h"

#include "runtime/base/Error.h"

#include <fmt/format.h>

using namespace ftlm;

int main(int argc, char **argv) {
  CLI::App app("ftlm-run: carries out a plan that ftlmc wrote: trains, evaluates, generates");
  app.set_version_flag("--version", "ftlm-run " FTLM_VERSION);
  app.require_subcommand(1);
  std::vector<std::pair<std::string, Command>> commands = {
      {"train", addTrain(app)},   {"evaluate", addEvaluate(app)}, {"generate", addGenerate(app)},
      {"step", addStep(app)},     {"inspect", addInspect(app)},   {"tokenize", addTokenize(app)},
      {"doctor", addDoctor(app)},
  };
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
