//! Fields that a document omits.

/// Whether a field has the value that it has where it is absent.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
