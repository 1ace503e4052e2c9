#include "executors/implementing.h"

#include "core/builder.h"
#include "runtime/instruction.h"

namespace thunder {
namespace {

// The types that the operator stood for gives: for the verifier, which runs metas on the final trace, too.
Types implemented_types(const Args& args) {
  const Op& op = *args.op().implements;
  if (op.meta) return op.meta(Args(op, args.list()));
  Builder b(std::make_shared<Arena>());
  Types types;
  for (Value v : flat_results(b.call(op, args.list()))) types.push_back(v ? v.type() : Type());
  return types;
}

}  // namespace

const Op& register_implementing_operator(const Op& record, const std::string& executor, std::string print_name,
                                         uint64_t tags, uint64_t without) {
  auto out = std::make_unique<Op>(record);
  out->level = executor;
  out->name = executor + "." + record.name;
  out->full_name = executor + "." + record.full_name;
  out->print_name = std::move(print_name);
  out->meta = implemented_types;
  out->body = nullptr;
  out->vjp = nullptr;
  out->tags = (out->tags & ~without) | tags;
  out->executor = executor;
  out->implements = &record;
  return Registry::instance().add(std::move(out), true);
}

Implementation implementing(const std::string& symbol, const std::string& executor,
                            std::function<bool(const Call&)> checker, uint64_t without) {
  const Op& record = Registry::instance().get(symbol);
  Implementation i;
  i.op = &register_implementing_operator(record, executor, executor + "_" + record.schema.name, kNoTag, without);
  i.checker = std::move(checker);
  return i;
}

}  // namespace thunder
