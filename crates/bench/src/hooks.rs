//! Commands around the runs: `--setup`, `--prepare`, `--conclude`, `--cleanup`, run by sh(1).

/// In the order of [`crate::case::Case::hooks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Before the first run of all.
    Setup,
    /// Before each run.
    Prepare,
    /// After each run.
    Conclude,
    /// After the last run of all.
    Cleanup,
}

impl Hook {
    pub(crate) fn option(self) -> &'static str {
        ["--setup", "--prepare", "--conclude", "--cleanup"][self as usize]
    }
}

/// The texts of a hook of all cases, each once: those without a parameter are the same for all.
pub(crate) fn distinct(cases: &[crate::case::Case], hook: Hook) -> Vec<&str> {
    let mut texts: Vec<&str> = Vec::new();
    for text in cases.iter().filter_map(|case| case.hooks[hook as usize].as_deref()) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}
