//! Bits of a raw byte sequence payload (ITU-T H.264 section 7.2).

/// A NAL unit's payload without emulation prevention bytes (section 7.4.1).
pub(super) fn unescaped(nal: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(nal.len());
    let mut zeros = 0;
    for &b in nal {
        if zeros >= 2 && b == 3 {
            zeros = 0;
            continue;
        }
        zeros = if b == 0 { zeros + 1 } else { 0 };
        out.push(b);
    }
    out
}

/// Reads bits, most significant first; `None` past the end.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// `n` bits, at most 32.
    pub(super) fn u(&mut self, n: u32) -> Option<u32> {
        let mut out = 0_u64;
        for _ in 0..n.min(32) {
            let byte = *self.bytes.get(self.at / 8)?;
            out = out << 1 | u64::from(byte >> (7 - self.at % 8) & 1);
            self.at += 1;
        }
        u32::try_from(out).ok()
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        Some(self.u(1)? == 1)
    }

    /// An unsigned Exp-Golomb code (section 9.1).
    pub(super) fn ue(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.flag()? {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        let rest = self.u(zeros)?;
        u32::try_from((1_u64 << zeros) - 1 + u64::from(rest)).ok()
    }

    /// A signed Exp-Golomb code (section 9.1.1).
    pub(super) fn se(&mut self) -> Option<i64> {
        let k = i64::from(self.ue()?);
        Some(if k % 2 == 1 { (k + 1) / 2 } else { -(k / 2) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_the_table_of_the_standard_has_them() {
        // 1, 010, 011, 00100: 0, 1, 2, 3 (table 9-2).
        let bytes = [0b1010_0110, 0b0100_0000];
        let mut b = Bits::new(&bytes);
        assert_eq!([b.ue(), b.ue(), b.ue(), b.ue()], [Some(0), Some(1), Some(2), Some(3)]);
        let mut b = Bits::new(&bytes);
        assert_eq!([b.se(), b.se(), b.se(), b.se()], [Some(0), Some(1), Some(-1), Some(2)]);
        assert_eq!(Bits::new(&[0; 8]).ue(), None);
        assert_eq!(Bits::new(&[0xff]).u(9), None);
        assert_eq!(unescaped(&[1, 0, 0, 3, 1, 0, 0, 0]), [1, 0, 0, 1, 0, 0, 0]);
    }
}
