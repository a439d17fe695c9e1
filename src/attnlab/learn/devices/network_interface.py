"""The network interface by which the machines of a run reach each other, for gloo.

Gloo takes the address that the name of a machine resolves to. On Debian and Ubuntu this is 127.0.1.1, which no other
machine reaches.
"""

import fcntl
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress

GLOO_VARIABLE = "GLOO_SOCKET_IFNAME"
_SIOCGIFADDR = 0x8915
"""the request for an interface's address (man netdevice)"""


def address_towards(host: str) -> str:
    """IPv4 address of this machine on its route to another one; empty without a route."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # sends nothing
        probe.connect((host, 9))
        return str(probe.getsockname()[0])
    return ""


def choose_interface(addresses: Sequence[str], rank: int) -> str:
    """Tell gloo which interface to use, unless the environment does; returns its name, empty if it is not known.

    Args:
        addresses: by rank, `address_towards` the machine of rank 0; on that machine itself it may be 127.*.
    """
    if name := os.environ.get(GLOO_VARIABLE, ""):
        return name
    ours = addresses[rank]
    if is_local(ours):
        ours = address_towards(next((address for address in addresses if not is_local(address)), ""))
    if name := _interface_of(ours):
        os.environ[GLOO_VARIABLE] = name
    return name


def is_local(address: str) -> bool:
    """Whether no other machine reaches this address."""
    return not address or address.startswith("127.")


def _interface_of(address: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            # an interface may have no IPv4 address
            with suppress(OSError):
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()))
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return ""
