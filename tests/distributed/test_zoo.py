"""Every architecture of litgpt's, sharded with its parameters gathered again, on two processes."""

import litgpt_zoo
import pytest
import zoo

OFTEN = 4


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if i < OFTEN else pytest.mark.slow)
        for i, name in enumerate(litgpt_zoo.architectures())
    ],
)
def test_gradients(workers, name):
    workers.run(2, zoo.train, name)
