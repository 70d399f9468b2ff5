//! A run of a transfer: its cells and their results.

use fathom_record::{Disturbance, FarEnd};

use crate::cell::Cell;
use crate::sender::{SenderDone, SenderOrders};
use crate::set::Set;

/// Fewer repetitions have no interval.
pub const REPEAT_MIN: u32 = 5;

/// A cell and its results.
pub struct TransferMeasured {
    pub cell: Cell,
    /// By block; `None` where it failed.
    pub done: Vec<Option<SenderDone>>,
    /// Why it failed first.
    pub failed: Option<String>,
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
    /// What disturbed the ends, over all repetitions.
    pub disturbed: Option<(Disturbance, FarEnd)>,
}

impl TransferRun {
    /// The CPUs of both ends.
    pub fn cpus(&self) -> [u32; 2] {
        self.orders.cpus
    }

    pub(crate) fn add(&mut self, (near, far): (Disturbance, FarEnd)) {
        self.disturbed = Some(match self.disturbed.take() {
            None => (near, far),
            Some((before, mut sum)) => {
                sum.disturbance = sum.disturbance.plus(&far.disturbance);
                (before.plus(&near), sum)
            }
        });
    }
}
