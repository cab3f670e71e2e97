"""Damage by number: input K of seed N is always the same bytes, whatever was asked before and wherever it runs.

The numbers come from SplitMix64 (Steele, Lea, Flood 2014), not from a library whose way of drawing may change."""
MASK = (1 << 64) - 1
# Where parsers go wrong: nothing, one, the edges of each width, and what is one past them.
INTERESTING = (0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF, 0x100000000,
               0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF)
LARGEST = 2 << 20  # bytes of an input: copies of parts must not add up


class Random:
    def __init__(self, seed, number):
        self.state = (seed * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03) & MASK
        for _ in range(4):
            self.next()

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        return z ^ (z >> 31)

    def below(self, n):
        return self.next() % max(n, 1)

    def pick(self, rows):
        return rows[self.below(len(rows))]

    def near_start(self, n):
        """A place below n, the head twice as often as the rest."""
        return self.below(min(n, 512) if self.below(3) else n)


def place(data, source, random):
    """Where an edit goes: mostly a part's header or the start of its body."""
    if source.units and random.below(10) < 8:
        unit = source.units[random.near_start(len(source.units))]
        at = unit.begins + random.below(unit.body - unit.begins + 16)
    else:
        at = random.near_start(len(data)) if random.below(2) else random.below(len(data))
    return min(at, len(data) - 1)


def flip(data, source, random, _other):
    for _ in range(1 + random.below(8)):
        data[place(data, source, random)] ^= 1 << random.below(8)


def integer(data, source, random, _other):
    at, width = place(data, source, random), random.pick((1, 2, 3, 4, 8))
    value = random.pick(INTERESTING) & ((1 << 8 * width) - 1)
    data[at:at + width] = value.to_bytes(width, random.pick(("big", "little")))[:len(data) - at]


def length(data, source, random, _other):
    """The length that a part tells of itself becomes another."""
    if not source.units:
        return integer(data, source, random, None)
    unit = source.units[random.near_start(len(source.units))]
    width, at = unit.size_len, unit.size_at
    if at + width > len(data):
        return None
    bits = 7 * width if unit.kind == "vint" else 8 * width
    order = "little" if unit.kind == "le" else "big"
    old = int.from_bytes(data[at:at + width], order) & ((1 << bits) - 1)
    new = random.pick((0, 1, old - 1, old + 1, old * 2, old // 2, len(data), len(data) - at, (1 << bits) - 1, (1 << bits) - 2, 1 << bits - 1, 7, 8,
                       old ^ 1 << random.below(bits), random.pick(INTERESTING))) & ((1 << bits) - 1)
    if unit.kind == "vint":
        new |= 1 << bits  # the marker: the field stays as wide as it is
    data[at:at + width] = new.to_bytes(width, order)
    return None


def part(data, source, random):
    """A part that can be cut out, as (begins, ends): a unit, or some bytes."""
    if source.units and random.below(4):
        unit = source.units[random.near_start(len(source.units))]
        begins, ends = unit.begins, unit.ends
    else:
        begins = place(data, source, random)
        ends = begins + 1 + random.below(random.pick((4, 64, 4096)))
    return min(begins, len(data)), min(ends, len(data))


def delete(data, source, random, _other):
    begins, ends = part(data, source, random)
    if ends - begins < len(data):
        del data[begins:ends]


def duplicate(data, source, random, _other):
    begins, ends = part(data, source, random)
    times = 1 + random.below(random.pick((1, 3, 40)))
    piece = bytes(data[begins:ends])
    data[ends:ends] = (piece * times)[:max(0, LARGEST - len(data))]


def move(data, source, random, _other):
    begins, ends = part(data, source, random)
    piece = bytes(data[begins:ends])
    del data[begins:ends]
    at = random.below(len(data) + 1)
    if source.units and random.below(2):
        at = min(random.pick(source.units).begins, len(data))
    data[at:at] = piece


def truncate(data, source, random, _other):
    del data[1 + (place(data, source, random) if random.below(3) == 0 else random.below(len(data))):]


def splice(data, source, random, other):
    """Another file's part in this one, or its tail on this one's head."""
    if random.below(2):
        begins, ends = part(other.data, other, random)
        piece = other.data[begins:min(ends, begins + (256 << 10))]
        mine, mine_ends = part(data, source, random)
        data[mine:mine_ends if random.below(2) else mine] = piece
    else:
        cut = random.below(len(data))
        data[cut:] = other.data[random.below(len(other.data)):]


def noise(data, source, random, _other):
    at = place(data, source, random)
    for n in range(at, min(len(data), at + 1 + random.below(random.pick((2, 16, 256))))):
        data[n] = random.below(256)


def text(data, source, random, _other):
    """What readers of lines stumble over; in a file of boxes it is noise of another kind."""
    at = place(data, source, random)
    piece = random.pick((b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"-->", b"99999999999999999999", b"-1", b"{\\", b"<", b"\r", b"\n\n", b"%s%n", b"\xf0\x9f\x98\x80", b"\x80",
                         b":" * 40, b"<i>" * 40, b"{" * 200, b"A" * 3000))
    data[at:at] = piece


KINDS = (flip, flip, integer, integer, length, length, length, delete, duplicate, move, truncate, splice, noise)
TEXT_KINDS = KINDS + (text, text, text, text, text, text)


class Input:
    """Input K: its bytes, the extension that it goes by, and how it came to be."""

    def __init__(self, seed, number, sources):
        random = Random(seed, number)
        family = random.pick(sources.families)
        self.number, self.source = number, random.pick(sources.by_family[family])
        kinds = TEXT_KINDS if self.source.is_text else KINDS
        data, told = bytearray(self.source.data), []
        for _ in range(1 + random.below(4) * random.below(2)):
            kind, other = random.pick(kinds), random.pick(sources.all)
            kind(data, self.source, random, other)
            told.append(kind.__name__)
            if not data:
                data = bytearray(b"\0")
        self.data, self.how = bytes(data[:LARGEST]), "+".join(told)
        self.extension = self.source.extension
        # Now and then by another name: what a file is goes by its bytes, not by that.
        if not self.source.is_text and self.source.role in ("video", "audio") and random.below(20) == 0:
            self.extension = random.pick(sources.extensions[self.source.role])

    @property
    def name(self):
        return "%06d.%s" % (self.number, self.extension)

    def describe(self, seed):
        return "seed %d, input %d: %s, by %s" % (seed, self.number, self.source.name, self.how)
