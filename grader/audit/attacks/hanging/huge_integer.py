# attack: computes a number in C code that nothing interrupts | class: hanging | canary: time
3 ** 3 ** 19
