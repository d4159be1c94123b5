"""What some modules of a model compute in a pass."""

from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Tuple

from torch import Tensor, nn

Read = Callable[[Any, Any, Any], Optional[Tensor]]  # the module, its inputs and its output -> what is recorded


@contextmanager
def recorded(modules: Iterable[Tuple[str, nn.Module]], read: Read) -> Iterator[Dict[str, Tensor]]:
    """Yield a dict that gets what *read* returns for the last pass of each of *modules*, by the name given with it.

    A pass for which *read* returns None changes nothing.
    """
    seen: Dict[str, Tensor] = {}

    def hook_of(name: str) -> Callable[[Any, Any, Any], None]:
        def record(module: Any, inputs: Any, output: Any) -> None:
            found = read(module, inputs, output)
            if found is not None:
                seen[name] = found

        return record

    hooks = [module.register_forward_hook(hook_of(name)) for name, module in modules]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()
