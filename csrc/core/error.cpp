#include "core/error.h"

namespace thunder {

void fail_assertion(const char* condition, const char* file, int line, const std::string& message) {
  throw Error(ErrorKind::Internal, cat("thunder: internal error, please report it: ", message, " (", condition, " at ",
                                       file, ":", line, ")"));
}

}  // namespace thunder
