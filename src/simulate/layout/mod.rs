//! How a volume's bytes fall on its disks. Pure arithmetic in both senses: no table grows with the volume.
//!
//! The disks are all of one size. Addresses are bytes of the volume's data from 0 on; a film is taken to lie in one piece (docs/striping.md
//! says what that leaves out).

mod btrfs;
mod md;
pub mod parse;
mod spaces;
#[cfg(test)]
mod tests;
mod zfs;

use std::ops::Deref;

pub use btrfs::Profile;
pub use md::Md;
pub use spaces::{Resiliency, Spaces};
pub use zfs::{Vdev, Zfs};

use crate::choose::Policy;
use crate::error::SimulateError;

/// The form of a layout's name, for messages.
pub const FORM: &str = "the form is KIND,disks=N[,KEY=VALUE]..., for instance `mirror,disks=4,columns=2`, `parity,disks=3`, \
     `md-raid10,disks=4,near=2,chunk=512K`, `btrfs-raid1,disks=3`, `zfs-raidz1,disks=4,record=1M`; KIND is one of: single, simple, mirror, \
     parity, md-raid0, md-raid1, md-raid10, md-raid5, md-raid6, btrfs-single, btrfs-raid0, btrfs-raid1, btrfs-raid1c3, \
     btrfs-raid1c4, btrfs-raid10, btrfs-raid5, btrfs-raid6, zfs-stripe, zfs-mirror, zfs-raidz1, zfs-raidz2, zfs-raidz3";

/// Copies at most: of an md raid1, its disks.
pub const MAX_COPIES: usize = 8;

/// Disks at most.
pub const MAX_DISKS: usize = 64;

/// A place on a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Number of the disk.
    pub disk: usize,
    /// First byte there.
    pub offset: u64,
}

/// The places of one run of bytes, one a copy, in the implementation's own order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copies {
    places: [Place; MAX_COPIES],
    count: usize,
}

impl Copies {
    /// Of so many, by number; more than [`MAX_COPIES`] are cut off.
    #[must_use]
    pub fn of(count: usize, place: impl Fn(usize) -> Place) -> Self {
        let count = count.min(MAX_COPIES);
        let mut places = [Place::default(); MAX_COPIES];
        for (number, slot) in places.iter_mut().take(count).enumerate() {
            *slot = place(number);
        }
        Self { places, count }
    }
}

impl Deref for Copies {
    type Target = [Place];

    fn deref(&self) -> &[Place] {
        &self.places[..self.count]
    }
}

/// Bytes that lie in one piece on each of their copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// How many from the address that was asked for.
    pub len_bytes: u64,
    /// Where.
    pub copies: Copies,
}

/// What makes the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One disk as it is.
    Single,
    /// Windows Storage Spaces.
    Spaces(Spaces),
    /// Linux md.
    Md(Md),
    /// btrfs.
    Btrfs(Profile),
    /// ZFS.
    Zfs(Zfs),
}

/// A layout over disks of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    text: String,
    disks: usize,
    disk_bytes: u64,
    kind: Kind,
    policy: Policy,
    parity: usize,
}

impl Layout {
    /// By its name, as [`FORM`] says, over disks of so many bytes.
    ///
    /// # Errors
    /// What is not understood or not possible, with the right form.
    pub fn parse(text: &str, disk_bytes: u64) -> Result<Self, SimulateError> {
        parse::layout(text, disk_bytes)
    }

    /// As it was named.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Disks of it.
    #[must_use]
    pub fn disks(&self) -> usize {
        self.disks
    }

    /// Which copy is read.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Copies of each byte.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.run(0).copies.len()
    }

    /// Disks that a large sequential read can use at once with distinct data.
    #[must_use]
    pub fn columns(&self) -> usize {
        match self.kind {
            Kind::Single => 1,
            Kind::Spaces(s) => s.data_columns(),
            Kind::Md(m) => m.columns(self.disks),
            Kind::Btrfs(p) => p.data_stripes(self.disks),
            Kind::Zfs(z) => z.columns(),
        }
    }

    /// Whether what the kernel sends it comes in pieces, each of which chooses a copy: a block device (md).
    #[must_use]
    pub fn is_block_device(&self) -> bool {
        matches!(self.kind, Kind::Md(_))
    }

    /// Parity units of each row; 0 where there is none.
    #[must_use]
    pub fn parity(&self) -> usize {
        self.parity
    }

    /// Bytes of data that it holds.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        match self.kind {
            Kind::Single => self.disk_bytes,
            Kind::Spaces(s) => s.size_bytes(self.disks, self.disk_bytes),
            Kind::Md(m) => m.size_bytes(self.disks, self.disk_bytes),
            Kind::Btrfs(p) => p.size_bytes(self.disks, self.disk_bytes),
            Kind::Zfs(z) => z.size_bytes(self.disk_bytes),
        }
    }

    /// Where a film may begin: at multiples of this, so that it meets stripes and records as a file would.
    #[must_use]
    pub fn align_bytes(&self) -> u64 {
        match self.kind {
            Kind::Zfs(z) => z.record_bytes.max(1 << 20),
            _ => 1 << 20,
        }
    }

    /// The run that begins at byte `at`.
    #[must_use]
    pub fn run(&self, at: u64) -> Run {
        match self.kind {
            Kind::Single => Run {
                len_bytes: self.disk_bytes.saturating_sub(at).max(1),
                copies: Copies::of(1, |_| Place { disk: 0, offset: at }),
            },
            Kind::Spaces(s) => s.run(self.disks, at),
            Kind::Md(m) => m.run(self.disks, self.disk_bytes, at),
            Kind::Btrfs(p) => p.run(self.disks, self.disk_bytes, at),
            Kind::Zfs(z) => z.run(at),
        }
    }

    /// Calls with each run of `len_bytes` at `at`: its address, its length, its places.
    pub fn runs(&self, at: u64, len_bytes: u64, mut each: impl FnMut(u64, Run)) {
        let (mut at, end) = (at, at.saturating_add(len_bytes));
        while at < end {
            let mut run = self.run(at);
            run.len_bytes = run.len_bytes.min(end - at);
            each(at, run);
            at += run.len_bytes;
        }
    }

    /// The row of a parity layout that holds byte `at`: where its data begins, how many bytes of data it has, and where its parity lies.
    /// `None` without parity, or where rows depend on the record (raidz writes whole records, never a part of a row).
    #[must_use]
    pub fn row(&self, at: u64) -> Option<Row> {
        match self.kind {
            Kind::Spaces(s) => s.row(self.disks, at),
            Kind::Md(m) => m.row(self.disks, at),
            Kind::Btrfs(p) => p.row(self.disks, self.disk_bytes, at),
            Kind::Single | Kind::Zfs(_) => None,
        }
    }
}

/// A row of a parity layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// First byte of its data, in the volume.
    pub start: u64,
    /// Bytes of data in it.
    pub data_bytes: u64,
    /// Bytes of one unit.
    pub unit_bytes: u64,
    /// Where its parity lies, a place for each unit of it.
    pub parity: Vec<Place>,
}
