#include "driver/page/page.h"

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "driver/page/arena_lives.h"
#include "driver/page/page_sources.h"
#include "support/atomic_file.h"

namespace weft {

namespace {

using Json = nlohmann::ordered_json;

/// ASCII without '<': nothing in it ends a script or begins a tag.
std::string for_script(const Json& data) {
  const std::string text = data.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

Json arena_json(const Program& program) {
  const ArenaLives arena = arena_lives(program);
  Json blocks = Json::array();
  for (const ArenaLife& life : arena.lives)
    blocks.push_back({life.name, life.offset, life.bytes, life.first, life.last});
  return {{"bytes", program.arena_bytes}, {"steps", arena.steps}, {"blocks", std::move(blocks)}};
}

Json io_json(const std::vector<ProgramIo>& list) {
  Json out = Json::array();
  for (const ProgramIo& io : list)
    out.push_back({{"name", io.name}, {"dtype", dtype_name(io.dtype)}, {"shape", io.shape}});
  return out;
}

/// Each distinct text once: kernels of a network's layers share their code.
class TextTable {
 public:
  Json id_of(const std::string& text) {
    if (text.empty()) return nullptr;
    const auto [it, fresh] = ids_.emplace(text, ids_.size());
    if (fresh) texts_.push_back(text);
    return it->second;
  }
  Json take() { return std::move(texts_); }

 private:
  std::map<std::string, size_t> ids_;
  Json texts_ = Json::array();
};

Json page_json(const PageContent& content, Json explanation) {
  const Program& program = content.program;
  Json j;
  j["model"] = program.model;
  j["inputs"] = io_json(program.inputs);
  j["outputs"] = io_json(program.outputs);
  j["plan"] = std::move(explanation);
  j["arena"] = arena_json(program);
  TextTable table;
  j["kernel_texts"] = Json::array();
  for (const KernelTexts& k : content.texts) {
    j["kernel_texts"].push_back({{"tile", table.id_of(k.tile)},
                                 {"kernel", table.id_of(k.kernel)},
                                 {"code", table.id_of(k.code)},
                                 {"buffers", k.buffers}});
  }
  j["texts"] = table.take();
  if (content.measured) {
    Json steps = Json::array();
    for (const MeasuredTimes::Step& s : content.measured->steps)
      steps.push_back({s.name, s.depth, s.us});
    j["measured"] = {{"run_us", content.measured->run_us}, {"steps", std::move(steps)}};
  }
  if (!content.comparison_json.empty())
    j["comparison"] = Json::parse(content.comparison_json, nullptr, false);
  return j;
}

/// The page with its parts in place. What a part holds is not looked at again.
std::string filled(const PageSources& page, std::string_view data) {
  const std::map<std::string_view, std::string_view> parts = {
      {"style", page.style}, {"script", page.script}, {"data", data}};
  std::string out;
  std::string_view rest = page.html;
  for (size_t open; (open = rest.find("{{")) != std::string_view::npos;) {
    const size_t close = rest.find("}}", open);
    out += rest.substr(0, open);
    out += parts.at(rest.substr(open + 2, close - open - 2));
    rest = rest.substr(close + 2);
  }
  return out.append(rest);
}

}  // namespace

Result<std::string> explanation_page(const PageContent& content) {
  Json explanation = Json::parse(content.program.explanation_json, nullptr, false);
  if (!explanation.is_object())
    return invalid_input("'" + content.program.model + "' was written without an explanation");
  return filled(page_sources(), for_script(page_json(content, std::move(explanation))));
}

Status write_page(const std::string& path, const std::string& page) {
  WEFT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  WEFT_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(page))));
  return file.commit(/*durable=*/false);
}

}  // namespace weft
