"""Recorded pickles of MXNet 1.9.1 (protocol 2), and their reading in tests.

``{"a": nd.array([[1, 2.5]]), "b": [nd.arange(3, dtype="int64")], "s": sym.var("d", ...) * 2}``
"""

import base64
import io
import pickle
import zlib

_PACKED = (
    "c-n1IO>5jR5Op@Klek~`YWfYrrxZ-E7kWquw1u2=a4&{nglvmy!7J}rc9LZ=1j-hA?yqT&**}(%Y^Tez#@0x0=FNK^-3"
    "}VCj-w6BvKVZn;~UAV6PdBHWYa!67w6whgu%reHbZ#Sz~jh9ieNI!IoK(sNj=J|k)+f~rWJ2_u$9uZ$atz8F7?KN?dTK"
    "o7QYw&?*1(P;?^4Ar{(*-wRCQuyW208MZUt0(aagj1mOIFCm}qY!?O^ctHk_40xx3N6$61D_Zrw2w%8Ke(b<ZkF5O&Fv"
    "X}H$-N1oBwZjlz&fzG8S1MsfPQmMLU}`!}io6TX_cp*AoYvbA-Zk)E*wIg<%p5{oiGxt?XL5-LLS|+~xR@a3$~w<okMy"
    "8qW3J(B31d}NYW~cnR0%fWl<Jb>q4&{k{+Es9q^^ukY@j~1B1p$|PF2csR<6<2**58~b<h#9a=2dm()Wmd<IV)Gv8i)e"
    "`GY=;!tX#0(6YFuld3ehM*@!wyR6_WYr6)0*RI!tA#)$}ikE6sNL`9vDzqN>r+yGOP6HoQQlH!dY{$B&"
)
PICKLE = zlib.decompress(base64.b85decode(_PACKED))


class _Unpickler(pickle.Unpickler):
    """Maps names of ``mxnet`` in the pickle to ``hybridjit``, as ``import mxnet`` does."""

    def find_class(self, module, name):
        return super().find_class(module.replace("mxnet.", "hybridjit.", 1), name)


def unpickled():
    return _Unpickler(io.BytesIO(PICKLE)).load()
