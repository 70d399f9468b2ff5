//! The words of an enum, as records and views have them.

/// `words!(Effort.word, Quick = "quick", …)` writes the method `word`, which returns the word of a
/// variant. `Effort.word.ALL` also writes `Effort::ALL`, the variants in this order.
#[macro_export]
macro_rules! words {
    ($name:ident.$method:ident.ALL, $($variant:ident = $word:literal),* $(,)?) => {
        impl $name {
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];
        }
        $crate::words!($name.$method, $($variant = $word),*);
    };
    ($name:ident.$method:ident, $($variant:ident = $word:literal),* $(,)?) => {
        impl $name {
            pub fn $method(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),*
                }
            }
        }
    };
}
