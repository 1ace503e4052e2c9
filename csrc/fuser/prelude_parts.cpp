#include "fuser/prelude_parts.h"

#include <algorithm>
#include <set>

namespace thunder::fuser {
namespace {

using Names = std::vector<std::string>;

/// A part of the tokens.
struct TokenRange {
  size_t first, end;
};

bool is_any(const PreludeToken& token, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), token.text) != words.end();
}

bool is_mark(const PreludeToken& t, std::string_view marks) {
  return t.kind == PreludeToken::Kind::Mark && marks.find(t.text[0]) != marks.npos;
}
bool opens(const PreludeToken& t) { return is_mark(t, "([{"); }
bool closes(const PreludeToken& t) { return is_mark(t, ")]}"); }

/// Behind the #endif of the conditional at `at`.
size_t behind_conditional(const Tokens& tokens, size_t at) {
  int depth = 0;
  for (; at < tokens.size(); ++at) {
    if (tokens[at].kind != PreludeToken::Kind::Directive) continue;
    const Tokens inside = inside_of(tokens[at]);
    if (word_of(inside).starts_with("if")) ++depth;
    if (word_of(inside) == "endif" && --depth == 0) return at + 1;
  }
  return at;
}

bool is_branch(const PreludeToken& token) {
  return token.kind == PreludeToken::Kind::Directive && word_of(inside_of(token)).starts_with("el");
}

/// Behind the `;` or the body of the declaration at `at`.
size_t behind_declaration(const Tokens& tokens, size_t at) {
  int depth = 0;
  for (; at < tokens.size(); ++at) {
    if (opens(tokens[at])) ++depth;
    if (closes(tokens[at])) --depth;
    if (depth > 0) continue;
    if (tokens[at].is(";")) return at + 1;
    if (tokens[at].is("}")) return at + 1 < tokens.size() && tokens[at + 1].is(";") ? at + 2 : at + 1;
  }
  return at;
}

bool uses_macro(const Tokens& tokens, size_t at, const Macros& macros) {
  return tokens[at].is_name() && macros.count(tokens[at].text) && at + 1 < tokens.size() && tokens[at + 1].is("(");
}

size_t behind_item(const Tokens& tokens, size_t at, const Macros& macros) {
  if (tokens[at].kind == PreludeToken::Kind::Directive)
    return word_of(inside_of(tokens[at])).starts_with("if") ? behind_conditional(tokens, at) : at + 1;
  if (!uses_macro(tokens, at, macros)) return behind_declaration(tokens, at);
  const size_t behind = behind_bracket(tokens, at + 1, tokens.size(), "(", ")");
  return behind < tokens.size() && tokens[behind].is(";") ? behind + 1 : behind;
}

/// The name of a struct or a union, whose keyword stands at `at`.
Names name_of_type(const Tokens& tokens, size_t at, size_t end) {
  for (++at; at + 1 < end; ++at) {
    if (tokens[at].is("alignas")) at = behind_bracket(tokens, at + 1, end, "(", ")") - 1;
    else if (tokens[at].is_name() && is_mark(tokens[at + 1], "{;:<")) return {std::string(tokens[at].text)};
    else return {};
  }
  return {};
}

/// The name of `typedef TYPE NAME;`, unless it has a bracket.
Names name_of_typedef(const Tokens& tokens, TokenRange range) {
  for (size_t i = range.first; i < range.end; ++i)
    if (opens(tokens[i]) || tokens[i].is(",")) return {};
  const PreludeToken& last = tokens[range.end - 2];
  return last.is_name() ? Names{std::string(last.text)} : Names{};
}

/// The name of a declaration that is recognised; none in doubt.
Names name_of_declaration(const Tokens& tokens, TokenRange range) {
  const auto [first, end] = range;
  size_t i = first;
  if (tokens[i].is("template") && i + 1 < end) i = behind_bracket(tokens, i + 1, end, "<", ">");
  for (; i + 1 < end; ++i) {
    const PreludeToken &t = tokens[i], &next = tokens[i + 1];
    if (is_any(t, {"struct", "class", "union"})) return name_of_type(tokens, i, end);
    if (t.is("typedef")) return name_of_typedef(tokens, range);
    if (is_any(t, {"operator", "enum", "namespace", "using", "static_assert", "asm", "concept", "requires"})) return {};
    if (is_any(t, {"__attribute__", "alignas", "decltype", "__launch_bounds__"}) && next.is("(")) {
      i = behind_bracket(tokens, i + 1, end, "(", ")") - 1;
      continue;
    }
    if (!t.is_name()) {
      if (is_mark(t, "*&:>") || t.kind == PreludeToken::Kind::Literal) continue;
      return {};
    }
    const bool arguments = next.is("<");
    const size_t behind = arguments ? behind_bracket(tokens, i + 1, end, "<", ">") : i + 1;
    if (behind == end) return {};
    const bool qualified = i > first && tokens[i - 1].is(":");
    const bool declares = is_mark(tokens[behind], "(=;[{");
    if (declares) return qualified ? Names{} : Names{std::string(t.text)};
    if (arguments) i = behind - 1;
  }
  return {};
}

Names names_of_item(const Tokens& tokens, TokenRange range, Macros& macros);

/// The names of all items; none if one of them has none.
Names names_of_items(std::string_view text, Macros& macros) {
  Names out;
  const Tokens tokens = tokens_of(text);
  for (size_t at = 0; at < tokens.size();) {
    const TokenRange range{at, behind_item(tokens, at, macros)};
    at = range.end;
    if (is_branch(tokens[range.first])) continue;
    const Names names = names_of_item(tokens, range, macros);
    if (names.empty()) return {};
    out.insert(out.end(), names.begin(), names.end());
  }
  return out;
}

/// Of a text that holds the tokens.
std::string_view text_of(const Tokens& tokens, TokenRange range) {
  const char* begin = tokens[range.first].text.data();
  const std::string_view last = tokens[range.end - 1].text;
  return {begin, static_cast<size_t>(last.data() + last.size() - begin)};
}

/// A conditional defines what both of its sides define.
Names names_of_item(const Tokens& tokens, TokenRange range, Macros& macros) {
  const PreludeToken& t = tokens[range.first];
  if (t.kind == PreludeToken::Kind::Directive) {
    const Tokens inside = inside_of(t);
    if (range.end - range.first > 1) return names_of_items(text_of(tokens, {range.first + 1, range.end - 1}), macros);
    if (word_of(inside) != "define" || inside.size() < 2) return {};
    add_macro(inside, macros);
    return {std::string(inside[1].text)};
  }
  if (!uses_macro(tokens, range.first, macros)) return name_of_declaration(tokens, range);
  return names_of_items(expansion_of(macros.find(t.text)->second, tokens, range.first + 2, range.end), macros);
}

}  // namespace

PreludeParts divide_prelude(const std::string& prelude) {
  PreludeParts out;
  const Tokens tokens = tokens_of(prelude);
  for (size_t at = 0; at < tokens.size();) {
    const TokenRange range{at, behind_item(tokens, at, out.macros)};
    PreludeParts::Item item{std::string(text_of(tokens, range)), names_of_item(tokens, range, out.macros), {}};
    for (const std::string& name : item.names) {
      std::vector<size_t>& items = out.by_name[name];
      if (items.empty() || items.back() != out.items.size()) items.push_back(out.items.size());
    }
    out.items.push_back(std::move(item));
    at = range.end;
  }
  for (PreludeParts::Item& item : out.items) {
    std::set<size_t> needs;
    for_each_name(item.text, out.macros, [&](std::string_view name) {
      if (auto it = out.by_name.find(name); it != out.by_name.end()) needs.insert(it->second.begin(), it->second.end());
    });
    item.needs.assign(needs.begin(), needs.end());
  }
  return out;
}

std::string used_part(const PreludeParts& prelude, std::string_view kernels) {
  std::vector<char> used(prelude.items.size());
  std::vector<size_t> left;
  auto take = [&](size_t i) {
    if (!used[i]) left.push_back(i);
    used[i] = true;
  };
  for (size_t i = 0; i < used.size(); ++i)
    if (prelude.items[i].names.empty()) take(i);
  for_each_name(kernels, prelude.macros, [&](std::string_view name) {
    if (auto it = prelude.by_name.find(name); it != prelude.by_name.end())
      for (size_t i : it->second) take(i);
  });
  while (!left.empty()) {
    const size_t i = left.back();
    left.pop_back();
    for (size_t needed : prelude.items[i].needs) take(needed);
  }
  std::string out;
  for (size_t i = 0; i < used.size(); ++i)
    if (used[i]) out += prelude.items[i].text + "\n";
  return out;
}

}  // namespace thunder::fuser
