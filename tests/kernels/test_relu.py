"""ReLU as an operator of compiled steps."""

import torch
import torch.nn.functional as F

from attnlab.kernels.relu import relu


def test_the_operator_is_relu_with_its_gradient() -> None:
    """As torch's checks of an operator want it; a number of each sign, and 0; rows that do not lie in order."""
    operator = torch.ops.attnlab.relu
    x = torch.tensor([[-1.5, 0.0, 2.0], [3.0, -0.0, -4.0]], dtype=torch.float64, requires_grad=True)
    for given in (x, x.t()):
        torch.library.opcheck(operator.default, (given,))
        grad = torch.randn_like(given)
        assert torch.equal(operator(given), F.relu(given)) and torch.equal(relu(given), F.relu(given))
        slopes = [torch.autograd.grad(function(given), x, grad)[0] for function in (operator, F.relu)]
        assert torch.equal(*slopes)
