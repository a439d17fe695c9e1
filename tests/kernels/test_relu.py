"""ReLU as an operator of compiled steps."""

import torch
import torch.nn.functional as F

from attnlab.kernels.relu import relu


def test_the_operator_is_relu_with_its_gradient() -> None:
    """As torch's checks of an operator want it; a number of each sign, and 0; rows that do not lie in order."""
    operator = torch.ops.attnlab.relu
    x = torch.tensor([[-1.5, 0.0, 2.0], [3.0, -0.0, -4.0]], dtype=torch.float64, requires_grad=True)
    for inputs in (x, x.t()):
        torch.library.opcheck(operator.default, (inputs,))
        grad = torch.randn_like(inputs)
        assert torch.equal(operator(inputs), F.relu(inputs)) and torch.equal(relu(inputs), F.relu(inputs))
        slopes = [torch.autograd.grad(function(inputs), x, grad)[0] for function in (operator, F.relu)]
        assert torch.equal(*slopes)
