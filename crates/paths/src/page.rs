//! The page behind the first mapping that an end uses.

use serde::{Deserialize, Serialize};

use crate::device::{DeviceSession, Role, TableEntry};
use crate::window::Window;

/// What is known of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Page {
    /// The entry of /proc/PID/pagemap.
    Pagemap(u64),
    /// The page-table entry, by a kernel device.
    Table(TableEntry),
}

/// Looks once, if it is to look at all.
#[derive(Debug, Default)]
pub(crate) struct PageWatch {
    is_on: bool,
    device: Option<DeviceSession>,
    page: Option<Page>,
}

impl PageWatch {
    pub(crate) fn set(&mut self, is_on: bool) {
        let any = || {
            DeviceSession::open(Role::Sends).or_else(|_| DeviceSession::open(Role::Receives)).ok()
        };
        (self.is_on, self.device) = (is_on, is_on.then(any).flatten());
    }

    /// At the first page of a window, after its use.
    pub(crate) fn look(&mut self, window: &Window) {
        if self.is_on && self.page.is_none() {
            let entry = self.device.as_ref().and_then(|it| it.table_entry(window.address()));
            let pagemap = || window.pagemap_entry().map(Page::Pagemap);
            self.page = entry.map(Page::Table).or_else(pagemap);
        }
    }

    pub(crate) fn page(&self) -> Option<Page> {
        self.page
    }
}
