//! The store of a measuring command. If it fails, the command warns once and goes on measuring.

use fathom_store::{Store, StoreError};

use super::stored_run;
use crate::arguments::StoreArguments;
use crate::remedy::with_remedy;
use crate::terminal;

pub(super) struct RunStore {
    /// `None` after an error.
    store: Option<Store>,
    /// Whether a missing record is a failure: the user named the store, or it failed during the
    /// run.
    required: bool,
}

impl RunStore {
    /// Opens the store; warns if that fails.
    pub(super) fn open(arguments: &StoreArguments) -> Self {
        let named = stored_run::named_store(arguments);
        let required = named.is_some();
        let path = named.map_or_else(Store::default_path, Ok);
        let opened = path.and_then(|path| Store::open(&path));
        let warn = |error: &StoreError| {
            terminal::warn(&format!("this run is not stored: {}", with_remedy(error)));
        };
        Self { store: opened.inspect_err(warn).ok(), required }
    }

    pub(super) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Writes to the store. Its first error is returned as a warning, and ends all writing.
    pub(super) fn write<T>(
        &mut self,
        write: impl FnOnce(&mut Store) -> Result<T, StoreError>,
    ) -> Option<String> {
        let error = write(self.store.as_mut()?).err()?;
        self.store = None;
        self.required = true;
        Some(format!("results are no longer stored: {}", with_remedy(&error)))
    }

    pub(super) fn has_failed(&self) -> bool {
        self.required && self.store.is_none()
    }
}
