"""The math functions in programs built in Python (written by `make docs` from their files; a test compares)."""

from metasched.lang.python_values import Value, ValueLike

__all__ = [
    "abs",
    "atan",
    "ceil",
    "cos",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "log",
    "log1p",
    "log2",
    "pow",
    "rint",
    "rsqrt",
    "sigmoid",
    "sin",
    "sqrt",
    "tanh",
]

def abs(x: ValueLike) -> Value:
    """abs: x without its sign; of integers too, where the lowest of a signed type stays as it is."""

def atan(x: ValueLike) -> Value:
    """atan, by a polynomial for small x; larger ones are turned by a quarter or an eighth of a circle first."""

def ceil(x: ValueLike) -> Value:
    """ceil: the smallest whole number that is not below x."""

def cos(x: ValueLike) -> Value:
    """cos: a quarter of a turn ahead of sin."""

def erf(x: ValueLike) -> Value:
    """erf, for positive x, from erfc(x) = e^-q(x)."""

def exp(x: ValueLike) -> Value:
    """exp: e^x = 2^n e^r, r within ln(2)/2 of zero, and a polynomial for e^r (Cody and Waite 1980, chapter 6)."""

def exp2(x: ValueLike) -> Value:
    """exp2: 2^x = 2^n 2^r, r within one half of zero, and a polynomial for 2^r."""

def expm1(x: ValueLike) -> Value:
    """expm1: e^x - 1 = 2^n (e^r - 1) + (2^n - 1), with a polynomial for e^r - 1."""

def floor(x: ValueLike) -> Value:
    """floor: the largest whole number that is not above x."""

def log(x: ValueLike) -> Value:
    """log: x = 2^e m with m in [sqrt(1/2), sqrt(2)), and a polynomial for log(m) (Cody and Waite 1980, chapter 5)."""

def log1p(x: ValueLike) -> Value:
    """log1p: log(u) for the rounded u = 1 + x, with what rounding lost added (Kahan's correction)."""

def log2(x: ValueLike) -> Value:
    """log2: the exponent, and the logarithm of the mantissa over ln(2). Powers of two give whole numbers."""

def pow(x: ValueLike, y: ValueLike) -> Value:
    """pow: 2^(y log2 |x|), with the logarithm to more bits than the result has, and the cases of C's `pow`."""

def rint(x: ValueLike) -> Value:
    """rint: the whole number nearest to x; of two, the even one."""

def rsqrt(x: ValueLike) -> Value:
    """rsqrt: one over the root, both rounded: no estimate."""

def sigmoid(x: ValueLike) -> Value:
    """sigmoid: 1 / (1 + e^-x), by the exponential of -|x|, which never overflows and keeps the small results."""

def sin(x: ValueLike) -> Value:
    """sin, and what cos shares with it: x = n pi/2 + r by a reduction in three parts, and polynomials on [-pi/4, pi/4]."""

def sqrt(x: ValueLike) -> Value:
    """sqrt: the root, rounded correctly."""

def tanh(x: ValueLike) -> Value:
    """tanh: (e^2x - 1) / (e^2x + 1), by expm1, so that small arguments lose nothing."""
