// doctest's main(), once; the tests stand beside it in folders that mirror csrc/.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest.h>
