//! A run of a transfer: its cells and their results.

use fathom_record::{Disturbance, FarEnd};

use crate::cell::Cell;
use crate::sender::{SenderDone, SenderFailure, SenderOrders};
use crate::set::Set;

/// Fewer repetitions have no interval.
pub const REPEAT_MIN: u32 = 5;

/// A cell and its results.
pub struct TransferMeasured {
    pub cell: Cell,
    /// By block; `None` where it failed.
    pub done: Vec<Option<SenderDone>>,
    /// Why it failed first.
    pub failed: Option<SenderFailure>,
}

/// A run.
pub struct TransferRun {
    pub sets: Vec<Set>,
    pub cells: Vec<TransferMeasured>,
    /// The name of the other host.
    pub to: Option<String>,
    /// The two ends may use one CPU only.
    pub shares_cpu: bool,
    /// A CPU of one end is emulated.
    pub is_emulated: bool,
    pub(crate) orders: SenderOrders,
    /// What disturbed the ends in each block.
    pub disturbed: Vec<(Disturbance, FarEnd)>,
}

impl TransferRun {
    /// The CPUs of both ends.
    pub fn cpus(&self) -> [u32; 2] {
        self.orders.cpus
    }

    /// What disturbed the ends in the blocks that have a value, in order.
    pub(crate) fn disturbed_in(
        &self,
        has_value: impl Fn(usize) -> bool,
    ) -> (Vec<Disturbance>, Vec<FarEnd>) {
        let blocks = self.disturbed.iter().enumerate().filter(|(block, _)| has_value(*block));
        blocks.map(|(_, ends)| ends.clone()).unzip()
    }
}
