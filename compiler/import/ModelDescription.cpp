// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/ModelDescription.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

using namespace llvm;

namespace ftlm {
namespace {

using Json = nlohmann::ordered_json;

Error fail(const Twine &place, const Twine &what) {
  return createStringError(place + ": " + what);
}

/// The known name nearest to `name` by edit distance, for "did you mean".
std::string nearest(StringRef name, ArrayRef<StringRef> known) {
  StringRef best = known.front();
  unsigned distance = ~0u;
  for (StringRef candidate : known)
    if (unsigned d = name.edit_distance(candidate); d < distance)
      best = candidate, distance = d;
  return best.str();
}

/// Checks what no single key can tell.
Error check(const ModelDescription &model, const std::string &place) {
  auto positive = [&](int64_t value, StringRef key) -> Error {
    if (value > 0 && value < (int64_t(1) << 31))
      return Error::success();
    return fail(place, formatv("'{0}' is {1}; expected 1 to 2^31 - 1", key, value).str());
  };
  for (auto [value, key] : {std::pair<int64_t, StringRef>{model.vocabulary, "vocabulary"},
                            {model.positions, "positions"},
                            {model.width, "width"},
                            {model.layers, "layers"},
                            {model.heads, "heads"},
                            {model.mlpWidth, "mlp_width"}})
    if (Error error = positive(value, key))
      return error;
  if (model.width % model.heads != 0) {
    std::string legal;
    for (int64_t heads = 1; heads <= std::min<int64_t>(model.width, 256); ++heads)
      if (model.width % heads == 0)
        legal += (legal.empty() ? "" : ", ") + std::to_string(heads);
    return fail(place, formatv("{0} heads do not divide a width of {1}; legal are {2}", model.heads,
                               model.width, legal)
                           .str());
  }
  for (auto [rate, key] :
       {std::pair<double, StringRef>{model.embeddingDropout, "embedding_dropout"},
        {model.attentionDropout, "attention_dropout"},
        {model.residualDropout, "residual_dropout"}})
    if (!(rate >= 0 && rate < 1))
      return fail(place,
                  formatv("'{0}' is {1}; expected 0 <= rate < 1", key, format("%g", rate)).str());
  if (model.specials < 0 || model.specials >= (int64_t(1) << 31))
    return fail(place, formatv("'specials' is {0}; expected 0 to 2^31 - 1", model.specials).str());
  if (!(model.initStddev >= 0) || std::isinf(model.initStddev))
    return fail(place, "'init_stddev' is not 0 or more");
  if (model.defaultTime < 0 || model.defaultTime > model.positions)
    return fail(place, formatv("'default_seq_len' is {0}; the model has {1} positions",
                               model.defaultTime, model.positions)
                           .str());
  if (model.defaultBatch < 1 || model.defaultMicroBatch < 1 ||
      model.defaultMicroBatch > model.defaultBatch)
    return fail(place,
                formatv("'default_micro_batch' is {0} and 'default_batch' {1}; expected 1 <= "
                        "micro-batch <= batch",
                        model.defaultMicroBatch, model.defaultBatch)
                    .str());
  if (!(model.epsilon > 0))
    return fail(place, "epsilon of the norms is not above 0");
  if (model.dropoutOnTable && model.naming == Naming::Gpt2)
    return fail(place,
                "embedding_dropout_on = \"table\" needs naming = \"gpt1\", whose parameters hold a "
                "joint table");
  if (model.naming == Naming::Gpt2 && (model.specials != 0 || model.softmaxOverPositions))
    return fail(place, "'specials' and 'softmax_over_positions' need naming = \"gpt1\", whose "
                       "parameters hold a joint table");
  return Error::success();
}

/// config.json for a description: what `transformers` needs to open the checkpoints.
std::string configFor(const ModelDescription &model) {
  Json json;
  bool gpt1 = model.naming == Naming::Gpt1;
  json["model_type"] = gpt1 ? "openai-gpt" : "gpt2";
  json["architectures"] = {gpt1 ? "OpenAIGPTLMHeadModel" : "GPT2LMHeadModel"};
  json["vocab_size"] = model.vocabulary + model.specials;
  json["n_positions"] = model.positions;
  json["n_embd"] = model.width;
  json["n_layer"] = model.layers;
  json["n_head"] = model.heads;
  if (!gpt1)
    json["n_inner"] = model.mlpWidth;
  static const std::map<std::string, std::string> names = {
      {"gelu_tanh", "gelu_new"}, {"gelu", "gelu"}, {"relu", "relu"}, {"silu", "silu"}};
  json[gpt1 ? "afn" : "activation_function"] =
      gpt1 && model.activation == "gelu_tanh" ? "gelu" : names.at(model.activation);
  json["layer_norm_epsilon"] = model.epsilon;
  json["embd_pdrop"] = model.embeddingDropout;
  json["attn_pdrop"] = model.attentionDropout;
  json["resid_pdrop"] = model.residualDropout;
  json["initializer_range"] = model.initStddev;
  json["tie_word_embeddings"] = true;
  return json.dump(2) + "\n";
}

/// Reads keys of one TOML table by name, and refuses those that nobody asked for.
class TomlTable {
public:
  TomlTable(const toml::table &table, std::string file) : table(table), file(std::move(file)) {}

  void integer(StringRef key, int64_t &value) {
    read(
        key,
        [&](const toml::node &node) {
          if (auto number = node.value_exact<int64_t>())
            return value = *number, true;
          return false;
        },
        "a whole number");
  }
  void number(StringRef key, double &value) {
    read(
        key,
        [&](const toml::node &node) {
          if (!node.is_number())
            return false;
          return value = *node.value<double>(), true;
        },
        "a number");
  }
  void boolean(StringRef key, bool &value) {
    read(
        key,
        [&](const toml::node &node) {
          if (auto truth = node.value_exact<bool>())
            return value = *truth, true;
          return false;
        },
        "true or false");
  }
  void choice(StringRef key, std::string &value, ArrayRef<StringRef> legal) {
    std::string words;
    for (StringRef word : legal)
      words += (words.empty() ? "\"" : ", \"") + word.str() + "\"";
    read(
        key,
        [&](const toml::node &node) {
          auto text = node.value_exact<std::string>();
          if (!text || (!legal.empty() && !is_contained(legal, StringRef(*text))))
            return false;
          return value = *text, true;
        },
        legal.empty() ? "a text" : "one of " + words);
  }
  void require(StringRef key) {
    if (error.empty() && !table.contains(std::string_view(key)))
      error = file + ": the key '" + key.str() + "' is missing";
  }
  /// After all keys were asked for: the first mistake, an unknown key included.
  Error finish() {
    for (auto &&[key, node] : table)
      if (error.empty() && !is_contained(known, StringRef(key.str())))
        error = formatv("{0}:{1}: unknown key '{2}'; did you mean '{3}'?", file,
                        key.source().begin.line, key.str(), nearest(key.str(), known));
    return error.empty() ? Error::success() : createStringError(error);
  }

private:
  void read(StringRef key, function_ref<bool(const toml::node &)> take,
            const std::string &expected) {
    known.push_back(key);
    const toml::node *node = table.get(std::string_view(key));
    if (!node || !error.empty() || take(*node))
      return;
    std::ostringstream found;
    found << toml::node_view<const toml::node>(*node);
    error = formatv("{0}:{1}: '{2}' is {3}; expected {4}", file, node->source().begin.line, key,
                    found.str(), expected);
  }

  const toml::table &table;
  std::string file, error;
  SmallVector<StringRef> known;
};

} // namespace

Expected<ModelDescription> readTomlDescription(const std::string &path) {
  toml::parse_result parsed = toml::parse_file(path);
  if (!parsed) {
    std::string what(parsed.error().description());
    return fail(formatv("{0}:{1}", path, parsed.error().source().begin.line).str(), what);
  }
  ModelDescription model;
  std::string naming = "gpt2", norm = "pre", table = "sum";
  TomlTable keys(parsed.table(), path);
  for (StringRef key : {"name", "vocabulary", "positions", "width", "layers", "heads"})
    keys.require(key);
  keys.choice("name", model.name, {});
  keys.choice("naming", naming, {"gpt1", "gpt2"});
  keys.integer("vocabulary", model.vocabulary);
  keys.integer("specials", model.specials);
  keys.integer("positions", model.positions);
  keys.integer("width", model.width);
  keys.integer("layers", model.layers);
  keys.integer("heads", model.heads);
  keys.integer("mlp_width", model.mlpWidth);
  keys.choice("activation", model.activation, {"gelu_tanh", "gelu", "relu", "silu"});
  keys.choice("norm", norm, {"pre", "post"});
  keys.boolean("final_norm", model.finalNorm);
  keys.number("epsilon", model.epsilon);
  keys.boolean("softmax_over_positions", model.softmaxOverPositions);
  keys.number("embedding_dropout", model.embeddingDropout);
  keys.choice("embedding_dropout_on", table, {"sum", "table"});
  keys.number("attention_dropout", model.attentionDropout);
  keys.number("residual_dropout", model.residualDropout);
  keys.number("init_stddev", model.initStddev);
  keys.boolean("scale_residual_init", model.scaleResidualInit);
  keys.integer("default_batch", model.defaultBatch);
  keys.integer("default_micro_batch", model.defaultMicroBatch);
  keys.integer("default_seq_len", model.defaultTime);
  if (Error error = keys.finish())
    return error;
  model.naming = naming == "gpt1" ? Naming::Gpt1 : Naming::Gpt2;
  model.preNorm = norm == "pre";
  model.dropoutOnTable = table == "table";
  if (model.mlpWidth == 0)
    model.mlpWidth = 4 * model.width;
  if (Error error = check(model, path))
    return error;
  model.configJson = configFor(model);
  return model;
}

namespace {

/// The prefix of the parameter names in a safetensors file's header, "transformer." when there is
/// no file.
std::string parameterPrefix(const std::string &folder) {
  std::ifstream file(folder + "/model.safetensors", std::ios::binary);
  unsigned char size[8];
  if (!file.read(reinterpret_cast<char *>(size), 8))
    return "transformer.";
  uint64_t bytes = 0;
  for (int i = 7; i >= 0; --i)
    bytes = bytes << 8 | size[i];
  std::string header(std::min<uint64_t>(bytes, 1 << 24), '\0');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  return StringRef(header).contains("\"transformer.") ? "transformer." : "";
}

} // namespace

Expected<ModelDescription> readHuggingFaceFolder(const std::string &folder) {
  std::string path = folder + "/config.json";
  std::ifstream file(path);
  if (!file)
    return fail(path, "cannot be read");
  std::stringstream text;
  text << file.rdbuf();
  Json json = Json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object())
    return fail(path, "is not a JSON object");

  std::string wrong;
  auto integer = [&](const char *key, int64_t &value, bool required) {
    auto found = json.find(key);
    if (found == json.end() || found->is_null()) {
      if (required && wrong.empty())
        wrong = formatv("the key '{0}' is missing", key);
    } else if (!found->is_number_integer()) {
      wrong = formatv("'{0}' is {1}; expected a whole number", key, found->dump());
    } else {
      value = found->get<int64_t>();
    }
  };
  auto number = [&](const char *key, double &value) {
    auto found = json.find(key);
    if (found == json.end() || found->is_null())
      return;
    if (!found->is_number())
      wrong = formatv("'{0}' is {1}; expected a number", key, found->dump());
    else
      value = found->get<double>();
  };
  auto mustBe = [&](const char *key, const Json &legal) {
    auto found = json.find(key);
    if (found != json.end() && *found != legal)
      wrong = formatv("'{0}' is {1}; ftlm does {2} only", key, found->dump(), legal.dump());
  };

  ModelDescription model;
  std::string type = json.value("model_type", Json("")).dump();
  if (type != "\"gpt2\"" && type != "\"openai-gpt\"")
    return fail(path, "'model_type' is " + type + "; expected \"gpt2\" or \"openai-gpt\"");
  bool gpt1 = type == "\"openai-gpt\"";
  model.name = gpt1 ? "openai-gpt" : "gpt2";
  model.naming = gpt1 ? Naming::Gpt1 : Naming::Gpt2;
  integer("vocab_size", model.vocabulary, true);
  integer("n_positions", model.positions, true);
  integer("n_embd", model.width, true);
  integer("n_layer", model.layers, true);
  integer("n_head", model.heads, true);
  if (!gpt1)
    integer("n_inner", model.mlpWidth, false);
  if (model.mlpWidth == 0)
    model.mlpWidth = 4 * model.width;
  number("layer_norm_epsilon", model.epsilon);
  number("embd_pdrop", model.embeddingDropout);
  number("attn_pdrop", model.attentionDropout);
  number("resid_pdrop", model.residualDropout);
  number("initializer_range", model.initStddev);
  mustBe("tie_word_embeddings", true);
  mustBe("scale_attn_weights", true);
  mustBe("scale_attn_by_inverse_layer_idx", false);
  mustBe("reorder_and_upcast_attn", false);
  mustBe("add_cross_attention", false);
  static const std::map<std::string, std::string> activations = {
      {"gelu_new", "gelu_tanh"}, {"gelu_pytorch_tanh", "gelu_tanh"},
      {"gelu", "gelu"},          {"relu", "relu"},
      {"silu", "silu"},          {"swish", "silu"}};
  std::string key = gpt1 ? "afn" : "activation_function";
  auto given = json.find(key);
  std::string activation =
      given != json.end() && given->is_string() ? given->get<std::string>() : "gelu_new";
  if (gpt1 && activation == "gelu")
    activation = "gelu_new"; // what GPT-1's implementation calls "gelu" is the tanh form
  if (auto known = activations.find(activation); known != activations.end())
    model.activation = known->second;
  else
    wrong =
        formatv("'{0}' is \"{1}\"; expected gelu_new, gelu_pytorch_tanh, gelu, relu, silu or swish",
                key, activation);
  if (!wrong.empty())
    return fail(path, wrong);
  model.preNorm = !gpt1;
  model.finalNorm = !gpt1;
  model.scaleResidualInit = !gpt1;
  if (!gpt1)
    model.prefix = parameterPrefix(folder);
  if (Error error = check(model, path))
    return error;
  model.configJson = text.str();
  return model;
}

} // namespace ftlm
