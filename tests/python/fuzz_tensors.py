"""The statements of random programs over tensors (fuzz.py).

In a text, a hole stands for something random that fits:
    <t> a tensor, which the other holes are about; <f> one of floats; <plain> one that requires no gradient; <u>
    another that broadcasts with it; <like> one of its shape; <new> a new name; <dim> a dimension; <i> an index in
    that dimension, <n> a length from there on; <k> how many parts to divide it into; <shape> other sizes for as
    many elements; <perm> its dimensions in another order; <wide> sizes that it can be expanded to, <same> its own
    behind one more, as -1; <sub> a subscript; <idx> a tensor of indices in the dimension; <at> one of the shape of
    <t>; <mask> a tensor of bools of its shape; <size> its sizes, written as t.shape[...]; <s> a number, <nz> one
    that is not 0; <dtype> a dtype; <unary>, <binary>, <fold> names of functions.
"""

VIEWS = """
<new> = <t>.view(<shape>)
<new> = <t>.reshape(<shape>)
<new> = <t>.view(<t>.shape[0], -1)
<new> = <t>.reshape(-1)
<new> = <t>.flatten()
<new> = <t>.ravel()
<new> = <t>.transpose(<dim>, <dim>)
<new> = <t>.permute(<perm>)
<new> = <t>.mT
<new> = <t>.movedim(<dim>, <dim>)
<new> = <t>[<sub>]
<new> = <t>[<sub>]
<new> = <t>[<sub>]
<new> = <t>.select(<dim>, <i>)
<new> = <t>.narrow(<dim>, <i>, <n>)
<new>, <new> = <t>.chunk(2, <dim>)
<new>, *<new>s = <t>.split(<k>, <dim>)
<new>, *<new>s = <t>.unbind(<dim>)
<new> = <t>.tensor_split(<k>, <dim>)[0].clone()
<new> = <t>.unsqueeze(<dim>)
<new> = <t>.squeeze()
<new> = <t>.squeeze(<dim>)
<new> = <t>.expand(<wide>)
<new> = <t>.expand(<same>)
<new> = <t>.expand_as(<u>)
<new> = <t>.broadcast_to(<wide>)
<new> = <t>.diagonal()
<new> = <t>.diagonal(0, <dim>, <dim>)
<new> = <t>.unfold(<dim>, <k>, 1)
<new> = <t>.unflatten(<dim>, (-1, <k>))
<new> = <t>.detach()
<new> = <t>.view_as(<t>)
<new> = <t>.swapaxes(0, -1)
<new> = <t>.contiguous()
<new> = torch.atleast_2d(<t>)
<new> = <t>.to(<t>.dtype)
<new> = <t>.real
<new> = <t>
<new> = torch.as_strided(<t>, <shape>, <strides>)
<new> = <t>.view(torch.int32) if <t>.dtype != torch.bool and <t>.numel() else <t>.clone()
<new> = <t>.data
"""

VALUES = """
<new> = <unary>(<f>)
<new> = <unary>(<f>)
<new> = <t> <binary> <u>
<new> = <t> <binary> <u>
<new> = <t> <binary> <nz>
<new> = <s> <binary> <t>
<new> = <t> <compared> <u>
<new> = -<t>
<new> = ~<mask>
<new> = torch.where(<mask>, <t>, <u>)
<new> = torch.where(<mask>, <t>, <s>)
<new> = <t>.clamp(<s>, 2)
<new> = torch.maximum(<t>, <u>)
<new> = torch.lerp(<f>, <like>, 0.25)
<new> = torch.addcmul(<f>, <u>, <u>)
<new> = <t>.<fold>()
<new> = <t>.<fold>(<dim>)
<new> = <t>.<fold>(<dim>, keepdim=True)
<new> = <f>.mean(<dim>)
<new> = <f>.softmax(<dim>)
<new> = F.layer_norm(<f>, <f>.shape[-1:])
<new> = F.batch_norm(<f>[None, None] + 1, None, None, training=True).flatten(0, 1)[0] if <f>.numel() > 1 else <f>
<new> = F.batch_norm(<f>.reshape(1, 1, -1).expand(2, 3, -1), None, None, training=True).relu()[1, 2].reshape(<f>.shape)
<new> = <f>.var(<dim>, correction=0)
<new> = (torch.exp(<f>) == torch.exp(<f>).amax(<dim>, keepdim=True)).any(<dim>)
<new> = (torch.tanh(<f> * 1.5).amax(<dim>, keepdim=True) - torch.tanh(<f> * 1.5)).clamp(max=0)
<new> = torch.sqrt(F.gelu(<f>) - F.gelu(<f>).amin()).isnan()
<new> = torch.sigmoid(<f>).amax(<dim>) + (<f> * 1.1 + <f> * <f>).amin(<dim>)
<new> = torch.where(<mask>, <f>, float("inf"))
<new> = torch.where(<mask>, <f>, float("nan"))
<new> = <t>.cumsum(<dim>)
<new> = <t>.argmax(<dim>)
<new>, <new> = <t>.max(<dim>)
<new>, <new> = <t>.sort(<dim>, stable=True)
<new> = <t>.flip(<dim>)
<new> = <t>.roll(<i>, <dim>)
<new> = <t>.repeat(<reps>)
<new> = torch.cat([<t>, <like>], <dim>)
<new> = torch.stack([<t>, <like>], 0)
<new> = F.pad(<t>, (1, 0))
<new> = <f> @ <u>
<new> = <f> @ <f>.mT
<new> = F.linear(<f>, <u>)
<new> = torch.einsum("...i,...i->...", <f>, <like>)
<new> = <t>.index_select(<dim>, <idx>)
<new> = <t>.gather(<dim>, <at>)
<new> = <t>[<idx>]
<new> = <t>[:, <idx>]
<new> = <t>[<mask>]
<new> = <t>.masked_fill(<mask>, <s>)
<new> = <t>.index_fill(<dim>, <idx>, 2)
<new> = <t>.index_add(<dim>, <idx>, <t>.index_select(<dim>, <idx>))
<new> = <t>.scatter(<dim>, <at>, <like>)
<new> = torch.select_scatter(<t>, <u>, 0, 0)
<new> = <t>.tril()
<new> = <t>.clone()
<new> = <t>.to(<dtype>)
<new> = <t>.to(<dtype>)
<new> = <f>.double()
<new> = <f>.bfloat16()
<new> = <t>.float()
<new> = <t>.long()
<new> = <t>.bool()
<new> = <t>.type_as(<u>)
<new> = <t>.new_zeros(<size>)
<new> = torch.zeros_like(<t>)
<new> = torch.ones(<size>)
<new> = torch.full_like(<t>, 2)
<new> = torch.arange(<t>.shape[0])
<new> = torch.empty_like(<t>).copy_(<t>)
<new> = torch.randn(<size>)
<new> = torch.rand_like(<f>)
<new> = torch.bernoulli(torch.full_like(<f>, 0.5))
<new> = F.dropout(<f>, 0.5)
<new> = torch.randint(0, 3, <size>)
<new> = <t> + <t>.shape[0]
<new> = <t> * <t>.dim()
<new> = <t> + 1 if <t>.requires_grad else <t> * 2
<new> = <t> + 1 if <t>.is_contiguous() else <t> * 2
<new> = <t> + 1 if <t>.dtype == torch.float32 else <t> * 2
<new> = <t> + 1 if <t>.shape[0] > 2 else <t> * 2
<new> = <t> + (<t>.stride(0) if <t>.shape[0] > 1 else 0)
<new> = <t> + (<t> is <u>)
<new> = <t> * (2 if torch.is_grad_enabled() else 3)
<new> = <t> * (2 if <t>.is_leaf else 3)
<new> = <t> * (2 if torch.rand(()) < 0.5 else 3)
<new> = <t>[int(torch.randint(0, 2, ())):]
<new> = <t> + 1 if <mask>.any() else <t> * 2
<new> = torch.complex(<f>, <like>)
<new> = sum(<t>[j] for j in range(<t>.shape[0]))
"""

WRITES = """
<t>.add_(<u>)
<t>.mul_(<s>)
<t>.sub_(<u>, alpha=2)
<t>.div_(2)
<t> += <u>
<t> *= <s>
<t>[<sub>] = <s>
<t>[<sub>] = <u>
<t>[<sub>] += 1
<t>[<sub>].mul_(<s>)
<t>[<mask>] = <s>
<t>[<mask>] += 1
<t>[<idx>] = <s>
<t>[<idx>] += 1
<t>.copy_(<u>)
<t>.copy_(<t>.flip(<dim>))
<t>.zero_()
<t>.fill_(<s>)
<t>.neg_()
<f>.sin_()
<f>.tanh_()
<f>.relu_()
<f>.exp_()
<f>.sigmoid_()
<f>.clamp_(-1, 1)
<t>.masked_fill_(<mask>, <s>)
<t>.index_add_(<dim>, <idx>, <t>.index_select(<dim>, <idx>))
<t>.index_copy_(<dim>, <idx>, <t>.index_select(<dim>, <idx>))
<t>.index_fill_(<dim>, <idx>, <s>)
<t>.scatter_(<dim>, <at>, <like>)
<t>.scatter_add_(<dim>, <at>, <like>)
<t>.cumsum_(<dim>)
<t>.tril_()
<t>.t_()
<t>.transpose_(<dim>, <dim>)
<t>.unsqueeze_(<dim>)
<t>.squeeze_()
<t>.detach_()
<plain>.data.add_(1)
<plain>.detach().mul_(2)
<t>.data = <like>.data * 2
<t>.requires_grad_()
<f>.normal_() if <f>.is_contiguous() else <f>.uniform_()
<f>.uniform_()
<f>.bernoulli_(0.5)
<t>.random_(0, 3)
<t>.diagonal().add_(1)
<t>.select(<dim>, <i>).copy_(<s>)
<t>.narrow(<dim>, <i>, <n>).zero_()
<t>.expand(<wide>).add_(1)
<t>.view(-1)[0] = <s>
<t>.as_strided(<shape>, <strides>).add_(1)
<t>.real.mul_(2)
<t>.swapaxes(0, -1).add_(<t>.clone())
<t>.addcmul_(<u>, <u>)
<t>.lerp_(<like>, 0.5)
<t>.pow_(2)
<t>.where(<mask>, <u>)
<t>.fill_diagonal_(2)
<t>.resize_(<t>.shape)
F.relu(<f>, inplace=True)
F.dropout(<f>, 0.5, inplace=True)
F.leaky_relu_(<f>)
torch.add(<t>, <t>, out=<like>)
torch.mul(<t>, 2, out=<t>)
<new> = torch.sum(<t>, <dim>, out=torch.empty(0))
<new> = torch.mul(<t>, 2, out=torch.empty_like(<t>))
torch.where(<mask>, <t>, <like>, out=<like>)
<new> = torch.cat([<t>, <like>], out=torch.empty(0))
torch._foreach_add_([<t>, <like>], 1)
torch._foreach_mul_([<t>, <u>], [<u>, <t>])
with torch.no_grad(): <t>.add_(1)
with torch.no_grad(): <t>.copy_(<u>)
for j in range(<t>.shape[0]): <t>[j] += j
for j in range(2): <t> = <t> * 2
"""

BLOCKS = """
with torch.no_grad():
with torch.enable_grad():
with torch.set_grad_enabled(False):
with torch.autocast("cpu", dtype=torch.bfloat16):
with torch.autocast("cpu", enabled=False):
with torch.inference_mode():
if <t>.shape[0] > 1:
if <t>.dim() == <n>:
"""

# Around a call: what holds when the program begins.
STATES = """
torch.no_grad()
torch.autocast("cpu", dtype=torch.bfloat16)
torch.inference_mode()
torch.autograd.set_grad_enabled(False)
"""

UNARY = "torch.sin torch.exp torch.relu torch.sigmoid torch.tanh torch.abs torch.square torch.floor torch.sign"
UNARY += " F.gelu F.silu"
BINARY = "+ - * * / ** // %"
COMPARED = "< >= == !="
FOLD = "sum sum amax amin prod any"
NUMBERS = "2 3 0.5 -1 1.5 True 0 -2.0"
DTYPES = "float32 float64 bfloat16 float16 int64 int32 bool uint8 complex64".split()

# How an input is made; # is its sizes, and @ those of a tensor that has one row more.
INPUTS = """
made(#)
made(#)
leaf(#)
leaf(#)
leaf(#) * 1
leaf(@)[1:]
(leaf(@) * 1)[1:]
made(@)[:-1].detach()
made(#, like="t")
leaf(#, like="t")
leaf(#, like="gaps") * 1
made(#, like="gaps")
made(#, dtype=torch.float64)
leaf(#, dtype=torch.float64)
leaf(#, dtype=torch.bfloat16) * 1
made(#, dtype=torch.bfloat16)
made(#, dtype=torch.int64)
made(#, dtype=torch.int32)
made(#, dtype=torch.bool)
made(#, dtype=torch.complex64)
leaf(#, dtype=torch.complex64) * 1
made(#[:1]).expand(#).detach()
nn.Parameter(made(#))
"""
# An input that shares memory with one before it, #.
ALIASES = """
#
#[:1]
#.view(-1)
#.t()
#.detach()
#.unsqueeze(0)
#[-1]
"""
