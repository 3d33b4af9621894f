"""Functions of ``sym.linalg``. Made from the registry by tools/gen_stubs.py."""

import hybridjit.sym as _whole

det = _whole.linalg_det
extractdiag = _whole.linalg_extractdiag
extracttrian = _whole.linalg_extracttrian
gelqf = _whole.linalg_gelqf
gemm = _whole.linalg_gemm
gemm2 = _whole.linalg_gemm2
inverse = _whole.linalg_inverse
makediag = _whole.linalg_makediag
maketrian = _whole.linalg_maketrian
potrf = _whole.linalg_potrf
potri = _whole.linalg_potri
slogdet = _whole.linalg_slogdet
sumlogdiag = _whole.linalg_sumlogdiag
syevd = _whole.linalg_syevd
syrk = _whole.linalg_syrk
trmm = _whole.linalg_trmm
trsm = _whole.linalg_trsm
