//! AAC: the `AudioSpecificConfig` (ISO/IEC 14496-3 section 1.6.2.1) and the descriptors of an `esds`
//! box around it (ISO/IEC 14496-1 section 7.2.6).

use super::bits::Bits;

const RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];

/// What the configuration tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AacFacts {
    /// RFC 6381 string.
    pub codec_string: String,
    /// Profile in FFmpeg's words.
    pub profile: &'static str,
    /// Channels that come out; `None` when only the stream tells.
    pub channels: Option<u32>,
    /// Sample rate that comes out.
    pub sample_rate: u32,
}

/// Reads an `AudioSpecificConfig`. `None` also where a decoder could find more than is told: spectral
/// band replication that is only signalled in the stream.
#[must_use]
pub fn config(bytes: &[u8]) -> Option<AacFacts> {
    let mut b = Bits::new(bytes);
    let mut object = object_type(&mut b)?;
    let mut rate = sample_rate(&mut b)?;
    let layout = b.u(4)?;
    let (mut sbr, mut ps) = (false, false);
    if object == 5 || object == 29 {
        (sbr, ps) = (true, object == 29);
        rate = sample_rate(&mut b)?;
        object = object_type(&mut b)?;
    } else if object == 2 && rate <= 24_000 && !explicitly_plain(&mut b) {
        return None;
    }
    let mut channels = match layout {
        1..=6 => Some(layout),
        7 | 12 | 14 => Some(8),
        11 => Some(7),
        _ => None,
    };
    if ps && channels == Some(1) {
        channels = Some(2);
    }
    let signalled = match (sbr, ps) {
        (_, true) => 29,
        (true, _) => 5,
        _ => object,
    };
    Some(AacFacts {
        codec_string: format!("mp4a.40.{signalled}"),
        profile: match signalled {
            1 => "Main",
            2 => "LC",
            3 => "SSR",
            4 => "LTP",
            5 => "HE-AAC",
            29 => "HE-AACv2",
            23 => "LD",
            39 => "ELD",
            42 => "xHE-AAC",
            _ => return None,
        },
        channels,
        sample_rate: rate,
    })
}

/// Whether a backward compatible extension says that there is no band replication.
fn explicitly_plain(b: &mut Bits<'_>) -> bool {
    let mut read = || {
        b.u(3)?; // frameLengthFlag, dependsOnCoreCoder, extensionFlag
        let sync = b.u(11)?;
        let object = object_type(b)?;
        Some(sync == 0x2b7 && object == 5 && !b.flag()?)
    };
    read().unwrap_or(false)
}

fn object_type(b: &mut Bits<'_>) -> Option<u32> {
    match b.u(5)? {
        31 => Some(32 + b.u(6)?),
        n => Some(n),
    }
}

fn sample_rate(b: &mut Bits<'_>) -> Option<u32> {
    match b.u(4)? {
        15 => b.u(24).filter(|r| (1..=192_000).contains(r)),
        n => RATES.get(usize::try_from(n).ok()?).copied(),
    }
}

/// What an `esds` box holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Esds<'a> {
    /// `objectTypeIndication`: 0x40 is AAC, 0x6b MP3.
    pub object_type: u8,
    /// Average bits per second, 0 when not told.
    pub average_bps: u32,
    /// The decoder's own configuration.
    pub config: &'a [u8],
}

/// Reads an `esds` box, its version and flags included.
#[must_use]
pub fn esds(body: &[u8]) -> Option<Esds<'_>> {
    let (tag, es) = descriptor(body.get(4..)?)?.0;
    if tag != 3 {
        return None;
    }
    let flags = *es.get(2)?;
    let mut skip = 3;
    if flags & 0x80 != 0 {
        skip += 2;
    }
    if flags & 0x40 != 0 {
        skip += 1 + usize::from(*es.get(skip)?);
    }
    if flags & 0x20 != 0 {
        skip += 2;
    }
    let (tag, decoder) = descriptor(es.get(skip..)?)?.0;
    if tag != 4 {
        return None;
    }
    let [object_type, _, _, _, _, _, _, _, _, a, b, c, d, rest @ ..] = decoder else {
        return None;
    };
    let config = match descriptor(rest) {
        Some(((5, config), _)) => config,
        _ => &[],
    };
    Some(Esds { object_type: *object_type, average_bps: u32::from_be_bytes([*a, *b, *c, *d]), config })
}

type Descriptor<'a> = ((u8, &'a [u8]), &'a [u8]);

fn descriptor(bytes: &[u8]) -> Option<Descriptor<'_>> {
    let (tag, mut rest) = bytes.split_first()?;
    let mut len = 0_usize;
    for _ in 0..4 {
        let (b, after) = rest.split_first()?;
        rest = after;
        len = len << 7 | usize::from(b & 0x7f);
        if b & 0x80 == 0 {
            break;
        }
    }
    // Some muxers write a length past the end of the box; what is there is what counts.
    let body = &rest[..len.min(rest.len())];
    Some(((*tag, body), &rest[body.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_read_as_the_standard_has_them() {
        for (bytes, expected) in [
            (&[0x11, 0x90][..], Some(("mp4a.40.2", "LC", Some(2), 48_000))),
            (&[0x12, 0x10], Some(("mp4a.40.2", "LC", Some(2), 44_100))),
            (&[0x11, 0xb0], Some(("mp4a.40.2", "LC", Some(6), 48_000))),
            // HE-AAC: type 5 at 24 kHz, extended to 48 kHz, over LC.
            (&[0x2b, 0x11, 0x88, 0x00], Some(("mp4a.40.5", "HE-AAC", Some(2), 48_000))),
            // LC at 24 kHz: replication may hide in the stream.
            (&[0x13, 0x10], None),
            (&[0x11], None),
            (&[], None),
        ] {
            let got = config(bytes);
            let got = got.as_ref().map(|f| (f.codec_string.as_str(), f.profile, f.channels, f.sample_rate));
            assert_eq!(got, expected, "{bytes:x?}");
        }
    }

    #[test]
    fn descriptors_are_read_with_long_lengths() {
        let mut body = vec![0, 0, 0, 0, 3, 0x80, 0x80, 0x80, 0x22, 0, 1, 0, 4, 0x80, 0x80, 0x80, 0x14];
        body.extend([0x40, 0x15, 0, 0, 0, 0, 1, 0xf4, 0, 0, 1, 0xf4, 0, 5, 2, 0x11, 0x90]);
        let e = esds(&body).unwrap();
        assert_eq!((e.object_type, e.average_bps, e.config), (0x40, 128_000, &[0x11, 0x90][..]));
        for n in 0..body.len() {
            let _ = esds(&body[..n]);
        }
    }
}
