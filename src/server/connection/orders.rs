//! What the server as a whole wants of its connections.

/// Sent to every connection whenever it changes.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::server) struct Orders {
    pub(in crate::server) stage: Stage,
    /// There is no room for more connections.
    pub(in crate::server) pressed: bool,
}

/// How far the server is on its way to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::server) enum Stage {
    #[default]
    Serving,
    /// It was asked to stop and still accepts: answers tell clients to go elsewhere.
    Draining,
    /// It accepts no more: idle connections end, the others with their answer.
    Stopping,
}
