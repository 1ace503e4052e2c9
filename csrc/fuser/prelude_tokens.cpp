#include "fuser/prelude_tokens.h"

#include <algorithm>
#include <cctype>

namespace thunder::fuser {
namespace {

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// The end of the line, continued lines included.
size_t end_of_line(std::string_view text, size_t at) {
  for (; at < text.size() && text[at] != '\n'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at, text.size());
}

size_t end_of_quoted(std::string_view text, size_t at) {
  const char quote = text[at++];
  for (; at < text.size() && text[at] != quote; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

size_t end_of_number(std::string_view text, size_t at) {
  for (; at < text.size(); ++at) {
    const bool sign = (text[at] == '+' || text[at] == '-') && std::string_view("eEpP").find(text[at - 1]) < 4;
    if (!continues_name(text[at]) && text[at] != '.' && text[at] != '\'' && !sign) break;
  }
  return at;
}

/// The end of a comment that begins here, or `at`.
size_t end_of_comment(std::string_view text, size_t at) {
  if (text.substr(at, 2) == "//") return end_of_line(text, at);
  if (text.substr(at, 2) != "/*") return at;
  return std::min(text.find("*/", at + 2), text.size() - 2) + 2;
}

PreludeToken token_at(std::string_view text, size_t at, bool begins_line) {
  const char c = text[at];
  auto token = [&](PreludeToken::Kind kind, size_t end) { return PreludeToken{kind, text.substr(at, end - at)}; };
  if (begins_name(c)) {
    size_t end = at;
    while (end < text.size() && continues_name(text[end])) ++end;
    return token(PreludeToken::Kind::Name, end);
  }
  if (c == '#' && begins_line) return token(PreludeToken::Kind::Directive, end_of_line(text, at));
  if (c == '"' || c == '\'') return token(PreludeToken::Kind::Literal, end_of_quoted(text, at));
  const bool fraction = c == '.' && at + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[at + 1]));
  if (std::isdigit(static_cast<unsigned char>(c)) || fraction)
    return token(PreludeToken::Kind::Literal, end_of_number(text, at + 1));
  if (text.substr(at, 2) == "##") return token(PreludeToken::Kind::Paste, at + 2);
  return token(PreludeToken::Kind::Mark, at + 1);
}

/// The tokens of each argument, up to the bracket that closes.
std::vector<Tokens> arguments_from(const Tokens& tokens, size_t first, size_t end) {
  std::vector<Tokens> out(1);
  int depth = 0;
  for (size_t i = first; i < end; ++i) {
    if (tokens[i].is(")") && depth-- == 0) break;
    if (tokens[i].is("(")) ++depth;
    if (tokens[i].is(",") && depth == 0) out.emplace_back();
    else out.back().push_back(tokens[i]);
  }
  return out;
}

std::string spaced(const Tokens& tokens) {
  std::string out;
  for (const PreludeToken& t : tokens) out += (out.empty() ? "" : " ") + std::string(t.text);
  return out;
}

/// The arguments as texts, one a parameter; the last one of a macro with `...` has the rest.
std::vector<std::string> values_of(const Macro& macro, const std::vector<Tokens>& arguments) {
  std::vector<std::string> out;
  for (const Tokens& a : arguments) {
    const bool rest = out.size() == macro.parameters.size() && !out.empty();
    if (rest) out.back() += ", " + spaced(a);
    else out.push_back(spaced(a));
  }
  out.resize(macro.parameters.size());
  return out;
}

}  // namespace

Tokens tokens_of(std::string_view text) {
  Tokens out;
  bool begins_line = true;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\n') begins_line = true;
    if (std::isspace(static_cast<unsigned char>(text[at])) || text.substr(at, 2) == "\\\n") {
      at += text[at] == '\\' ? 2 : 1;
      continue;
    }
    if (const size_t end = end_of_comment(text, at); end != at) {
      at = end;
      continue;
    }
    out.push_back(token_at(text, at, begins_line));
    begins_line = false;
    at += out.back().text.size();
  }
  return out;
}

size_t behind_bracket(const Tokens& tokens, size_t open, size_t end, std::string_view opening,
                      std::string_view closing) {
  int depth = 0;
  for (size_t i = open; i < end; ++i) {
    if (tokens[i].is(opening)) ++depth;
    if (tokens[i].is(closing) && --depth == 0) return i + 1;
  }
  return end;
}

Tokens inside_of(const PreludeToken& directive) { return tokens_of(directive.text.substr(1)); }

std::string_view word_of(const Tokens& inside) { return inside.empty() ? "" : inside[0].text; }

void add_macro(const Tokens& inside, Macros& macros) {
  if (inside.size() < 3 || word_of(inside) != "define") return;
  // A bracket behind a space belongs to the body.
  if (!inside[2].is("(") || inside[2].text.data() != inside[1].text.data() + inside[1].text.size()) return;
  const size_t behind = behind_bracket(inside, 2, inside.size(), "(", ")");
  Macro macro;
  for (size_t i = 3; i + 1 < behind; ++i)
    if (inside[i].is_name()) macro.parameters.emplace_back(inside[i].text);
    else if (inside[i].is(".") && inside[i - 1].is(".") && inside[i - 2].is("."))
      macro.parameters.push_back("__VA_ARGS__");
  for (size_t i = behind; i < inside.size(); ++i) {
    macro.pastes |= inside[i].kind == PreludeToken::Kind::Paste;
    macro.body += std::string(inside[i].text) + " ";
  }
  macros[std::string(inside[1].text)] = macro;
}

std::string expansion_of(const Macro& macro, const Tokens& tokens, size_t first, size_t end) {
  const std::vector<std::string> values = values_of(macro, arguments_from(tokens, first, end));
  std::string out;
  bool pasted = true;
  for (const PreludeToken& t : tokens_of(macro.body)) {
    if (t.kind == PreludeToken::Kind::Paste) {
      pasted = true;
      continue;
    }
    const auto it = std::find(macro.parameters.begin(), macro.parameters.end(), t.text);
    if (!pasted) out += " ";
    out += it == macro.parameters.end() ? std::string(t.text) : values[it - macro.parameters.begin()];
    pasted = false;
  }
  return out;
}

void for_each_name(std::string_view text, const Macros& macros, const std::function<void(std::string_view)>& use) {
  const Tokens tokens = tokens_of(text);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].kind == PreludeToken::Kind::Directive) for_each_name(tokens[i].text.substr(1), macros, use);
    if (!tokens[i].is_name()) continue;
    use(tokens[i].text);
    const auto macro = macros.find(tokens[i].text);
    const bool makes_names = macro != macros.end() && macro->second.pastes;
    if (!makes_names || i + 1 == tokens.size() || !tokens[i + 1].is("(")) continue;
    Macros others = macros;  // a macro's name is no macro in what stands for it
    others.erase(macro->first);
    for_each_name(expansion_of(macro->second, tokens, i + 2, tokens.size()), others, use);
  }
}

}  // namespace thunder::fuser
