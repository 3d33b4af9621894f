# LLVM's code generation level. Level 3 takes 5 % longer, and its code differs only in a duplicated
# end of a block in some strided convolutions: kernels of training steps of ResNet-18 and ResNet-50,
# for each vector width.
LEVEL = 1
ALL_PASSES = 2  # in place of True: a kernel gains from more than the two usual passes
