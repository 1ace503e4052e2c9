"""The executor of operators on Python numbers; and what printed programs import."""

from thunder import _C

ex = _C.find_executor("python")


def clear_collection(collection):
    """Empties a list, so that it does not keep tensors alive that the program deletes."""
    if isinstance(collection, list):
        collection.clear()
