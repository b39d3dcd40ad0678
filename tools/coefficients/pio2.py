#!/usr/bin/env python3
"""Prints the constants of src/ops/scalar/pio2.cc: pi/2 in three doubles and 1216 bits of 2/pi.

How many bits: the largest double is m 2^971 with m < 2^53, and the reduction reads 192 bits from bit 970 on, at word
granularity 1163 bits or fewer.
"""

from mpmath import mp

mp.prec = 2000


def doubles(value, count):
    """The leading `count` doubles of a value, each the nearest to what the earlier ones leave."""
    words = []
    for _ in range(count):
        words.append(float(value))
        value -= mp.mpf(words[-1])
    return words


def main():
    print("pi/2:", ", ".join(word.hex() for word in doubles(mp.pi / 2, 3)))
    print("2/pi:", float(2 / mp.pi).hex())
    count = 19
    bits = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (64 * count)))
    words = [(bits >> (64 * (count - 1 - i))) & (2**64 - 1) for i in range(count)]
    for i in range(0, count, 4):
        print(" ".join(f"0x{word:016x}," for word in words[i : i + 4]))


if __name__ == "__main__":
    main()
