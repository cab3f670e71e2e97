//! ISO BMFF.
use std::io::{Read, Seek};

use super::{Fail, Probed, incomplete};
use crate::guard::BudgetReader;

pub(super) fn probe<R: Read + Seek>(_reader: &mut BudgetReader<R>, _max: u64) -> Result<Probed, Fail> {
    incomplete("its streams")
}
