//! Why a plan cannot be made.

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("no metric or group is called `{name}`")]
    Unknown {
        name: String,
        /// The most similar names, as `a` or `b`. Empty if there are none.
        nearest: String,
    },
    #[error("{metric} is not measured by `run`, but by a command of its own")]
    ByHand {
        metric: String,
        /// Such as `file read`.
        command: String,
    },
    #[error("{0}")]
    Selector(String),
    #[error("`{text}`: select cases of a metric; `{name}` is a group")]
    CasesOfGroup { text: String, name: String },
    #[error("no selected metric has a far end on another host")]
    NothingRemote,
    #[error("`{text}`: no such case on this machine; there are: {there_are}")]
    NoSuchCase { text: String, there_are: String },
}
