"""Where a media file's parts and their lengths are: what a mutation must know to hit more than noise.

`units` walks boxes, elements, chunks, pages, tags, blocks and segments. It believes the file it is given, which is a good one, and stops
at the first thing that it does not understand."""
import struct

MOST = 4000  # units of one file; those of its head come first


class Unit:
    """A part: `[begins, ends)`, its body from `body`, and the field that says how long it is."""
    __slots__ = ("begins", "body", "ends", "size_at", "size_len", "kind")

    def __init__(self, begins, body, ends, size_at, size_len, kind):
        self.begins, self.body, self.ends = begins, body, ends
        self.size_at, self.size_len, self.kind = size_at, size_len, kind


# Boxes that hold boxes, with the bytes before the first of them (ISO/IEC 14496-12; stsd: 8 bytes of version and count, sample entries: 78 and 28).
BOXES = {b"moov": 0, b"trak": 0, b"mdia": 0, b"minf": 0, b"stbl": 0, b"edts": 0, b"dinf": 0, b"udta": 0, b"mvex": 0, b"moof": 0, b"traf": 0, b"mfra": 0,
         b"meta": 4, b"ilst": 0, b"stsd": 8, b"dref": 8, b"sinf": 0, b"schi": 0, b"wave": 0,
         b"avc1": 78, b"hvc1": 78, b"hev1": 78, b"dvh1": 78, b"vp09": 78, b"av01": 78, b"mp4v": 78, b"mp4a": 28, b"ac-3": 28, b"ec-3": 28, b"Opus": 28, b"fLaC": 28}
# Elements that hold elements (RFC 9559): Segment, SeekHead, Seek, Info, Tracks, TrackEntry, Video, Colour, MasteringMetadata, Audio, ContentEncodings, ContentEncoding,
# BlockAdditionMapping, Cues, CuePoint, CueTrackPositions, Chapters, EditionEntry, ChapterAtom, ChapterDisplay, Tags, Tag, SimpleTag, Cluster, BlockGroup, Attachments,
# AttachedFile, EBML.
MASTERS = {0x18538067, 0x114D9B74, 0x4DBB, 0x1549A966, 0x1654AE6B, 0xAE, 0xE0, 0x55B0, 0x55D0, 0xE1, 0x6D80, 0x6240, 0x41E4, 0x1C53BB6B, 0xBB, 0xB7, 0x1043A770,
           0x45B9, 0xB6, 0x80, 0x1254C367, 0x7373, 0x67C8, 0x1F43B675, 0xA0, 0x1941A469, 0x61A7, 0x1A45DFA3}


def boxes(data, begins, ends, out):
    while begins + 8 <= ends and len(out) < MOST:
        size, kind = struct.unpack_from(">I4s", data, begins)
        head, size_at, size_len = 8, begins, 4
        if size == 1 and begins + 16 <= ends:
            size, head, size_at, size_len = struct.unpack_from(">Q", data, begins + 8)[0], 16, begins + 8, 8
        elif size == 0:
            size = ends - begins
        if size < head or begins + size > ends:
            return
        out.append(Unit(begins, begins + head, begins + size, size_at, size_len, "be"))
        if kind in BOXES:
            boxes(data, begins + head + BOXES[kind], begins + size, out)
        begins += size


def vint(data, at, keep):
    """A number of EBML at `at` and its length; `keep` leaves the marker in it, as identifiers have it."""
    if at >= len(data) or not data[at]:
        return None
    length = 9 - data[at].bit_length()
    if at + length > len(data):
        return None
    value = int.from_bytes(data[at:at + length], "big")
    return (value if keep else value & ((1 << 7 * length) - 1)), length


def elements(data, begins, ends, out):
    while begins < ends and len(out) < MOST:
        name = vint(data, begins, True)
        size = name and vint(data, begins + name[1], False)
        if not size or name[1] > 4:
            return
        body = begins + name[1] + size[1]
        unknown = size[0] == (1 << 7 * size[1]) - 1
        stop = ends if unknown else body + size[0]
        if stop > ends:
            stop = ends
        out.append(Unit(begins, body, stop, begins + name[1], size[1], "vint"))
        if name[0] in MASTERS:
            elements(data, body, stop, out)
        begins = stop


def chunks(data, begins, ends, out, order):
    """RIFF (little-endian) and AIFF (big-endian)."""
    while begins + 8 <= ends and len(out) < MOST:
        size = struct.unpack_from(order + "I", data, begins + 4)[0]
        stop = min(begins + 8 + size, ends)
        out.append(Unit(begins, begins + 8, stop, begins + 4, 4, "le" if order == "<" else "be"))
        if data[begins:begins + 4] in (b"RIFF", b"LIST", b"FORM"):
            chunks(data, begins + 12, stop, out, order)
        begins = stop + (stop & 1)


def pages(data, out):
    """Ogg: pages whose length is told by a table of lacing (RFC 3533)."""
    at = 0
    while data[at:at + 4] == b"OggS" and at + 27 <= len(data) and len(out) < MOST:
        count = data[at + 26]
        stop = min(at + 27 + count + sum(data[at + 27:at + 27 + count]), len(data))
        out.append(Unit(at, at + 27 + count, stop, at + 26, 1, "be"))
        at = stop


def blocks(data, out):
    """FLAC: metadata blocks with lengths of three bytes (RFC 9639)."""
    at = 4
    while at + 4 <= len(data):
        stop = at + 4 + int.from_bytes(data[at + 1:at + 4], "big")
        if stop > len(data):
            return
        out.append(Unit(at, at + 4, stop, at + 1, 3, "be"))
        if data[at] & 0x80:
            return
        at = stop


def tags(data, out):
    """FLV: tags, each followed by its length."""
    at = 13
    while at + 11 <= len(data) and len(out) < MOST:
        stop = at + 11 + int.from_bytes(data[at + 1:at + 4], "big") + 4
        if stop > len(data):
            return
        out.append(Unit(at, at + 11, stop, at + 1, 3, "be"))
        at = stop


def png(data, out):
    at = 8
    while at + 12 <= len(data):
        stop = at + 12 + struct.unpack_from(">I", data, at)[0]
        if stop > len(data):
            return
        out.append(Unit(at, at + 8, stop, at, 4, "be"))
        at = stop


def jpeg(data, out):
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] != 0xDA:
        stop = at + 2 + struct.unpack_from(">H", data, at + 2)[0]
        out.append(Unit(at, at + 4, min(stop, len(data)), at + 2, 2, "be"))
        at = stop


def id3(data, out):
    """The tag before MPEG audio: a length of four times seven bits, frames with lengths of their own."""
    ends = min(10 + sum((data[6 + n] & 0x7F) << 7 * (3 - n) for n in range(4)), len(data))
    out.append(Unit(0, 10, ends, 6, 4, "be"))
    at = 10
    while at + 10 <= ends and data[at]:
        stop = at + 10 + struct.unpack_from(">I", data, at + 4)[0]
        if stop > ends:
            return
        out.append(Unit(at, at + 10, stop, at + 4, 4, "be"))
        at = stop


def packets(data, size, first, out):
    """Transport stream: packets of one size; the length that can lie is the adaptation field's."""
    for at in range(first, len(data) - 188, size):
        if data[at] != 0x47 or len(out) >= MOST:
            return
        out.append(Unit(at - first, at + 4, at - first + size, at + 4, 1, "be"))


def lines(data, out):
    at = 0
    while at < len(data) and len(out) < MOST:
        stop = data.find(b"\n", at) + 1 or len(data)
        out.append(Unit(at, at, stop, at, 1, "be"))
        at = stop


def units(data, extension):
    """The parts of a file, those of its head first."""
    out = []
    if data[4:8] in (b"ftyp", b"moov", b"wide", b"mdat", b"free"):
        boxes(data, 0, len(data), out)
    elif data[:4] == b"\x1a\x45\xdf\xa3":
        elements(data, 0, len(data), out)
    elif data[:4] == b"RIFF":
        chunks(data, 0, len(data), out, "<")
    elif data[:4] == b"FORM":
        chunks(data, 0, len(data), out, ">")
    elif data[:4] == b"OggS":
        pages(data, out)
    elif data[:4] == b"fLaC":
        blocks(data, out)
    elif data[:3] == b"FLV":
        tags(data, out)
    elif data[:4] == b"\x89PNG":
        png(data, out)
    elif data[:2] == b"\xff\xd8":
        jpeg(data, out)
    elif data[:3] == b"ID3":
        id3(data, out)
    elif data[:1] == b"\x47" and data[188:189] == b"\x47":
        packets(data, 188, 0, out)
    elif data[4:5] == b"\x47" and data[196:197] == b"\x47":
        packets(data, 192, 4, out)
    elif extension in ("srt", "vtt", "ass", "smi", "idx", "nfo", "cue", "m3u8", "lrc"):
        lines(data, out)
    return out
