#include "jit/inspection.h"

namespace thunder {

void Inspection::take(std::shared_ptr<const CompileRecord> of, const CacheEntry& e) {
  record = std::move(of);
  programs = e.programs;
  number_guards = e.symbols ? e.symbols->text() : std::vector<std::string>();
  symbols = e.symbols ? e.symbols->symbol_text() : std::vector<std::string>();
  for (std::string& line : e.checks.text()) number_guards.push_back(std::move(line));
}

std::string Inspection::program_text() const {
  if (!programs) return {};
  std::string text = programs->forward->str();
  if (programs->backward) text += "\n" + programs->backward->str();
  if (programs->epilogue) text += "\n" + programs->epilogue->str();
  return text;
}

}  // namespace thunder
