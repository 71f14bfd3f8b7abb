"""The math functions in programs built in Python (written by `make docs` from their files; a test compares)."""

from metasched.lang.python_values import Value, ValueLike

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
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
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]

def abs(x: ValueLike) -> Value:
    """abs: x without its sign; of integers too, where the lowest of a signed type stays as it is."""

def acos(x: ValueLike) -> Value:
    """acos: pi/2 - asin(x) near zero, and 2 asin(sqrt((1 - |x|) / 2)), or pi less that, beyond 1/2."""

def acosh(x: ValueLike) -> Value:
    """acosh: log1p(t + sqrt(2t + t^2)) of t = x - 1, and log(x) + log(2) of what is large (Abramowitz and Stegun 4.6)."""

def asin(x: ValueLike) -> Value:
    """asin, and what acos shares with it: a polynomial on [0, 1/2], and asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)) beyond"""

def asinh(x: ValueLike) -> Value:
    """asinh: log1p(x + x^2 / (1 + sqrt(1 + x^2))), and log(x) + log(2) of what is large (Abramowitz and Stegun 4.6)."""

def atan(x: ValueLike) -> Value:
    """atan, and what atan2 shares with it: a polynomial on [0, 1], and pi/2 - atan(1/x) beyond."""

def atan2(x: ValueLike, y: ValueLike) -> Value:
    """atan2: the angle of a point, by atan of the smaller coordinate over the larger, with the cases of C's `atan2`."""

def atanh(x: ValueLike) -> Value:
    """atanh: log1p(2x / (1 - x)) / 2 (Abramowitz and Stegun 4.6)."""

def ceil(x: ValueLike) -> Value:
    """ceil: the smallest whole number that is not below x."""

def cos(x: ValueLike) -> Value:
    """cos: a quarter of a turn ahead of sin."""

def cosh(x: ValueLike) -> Value:
    """cosh: (e^x + e^-x) / 2; e^x may be too large where this is not."""

def erf(x: ValueLike) -> Value:
    """erf, for positive x, from erfc(x) = e^-q(x)."""

def erfc(x: ValueLike) -> Value:
    """erfc: 1 - erf(x) for small x; for large, (1 + 2x) e^(x^2) erfc(x) as a polynomial in (x - c) / (x + c) (Shepherd and"""

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
    """sin, and what cos and tan share with it: x = n pi/2 + r by a reduction in three parts, polynomials on [-pi/4, pi/4]."""

def sinh(x: ValueLike) -> Value:
    """sinh: a polynomial on [0, 1], and (e^x - e^-x) / 2 beyond; e^x may be too large where this is not."""

def sqrt(x: ValueLike) -> Value:
    """sqrt: the root, rounded correctly."""

def tan(x: ValueLike) -> Value:
    """tan: sin / cos of the same reduced argument, or -cos / sin in every other quadrant."""

def tanh(x: ValueLike) -> Value:
    """tanh: (e^2x - 1) / (e^2x + 1), by expm1, so that small arguments lose nothing."""
