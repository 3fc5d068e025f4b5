//! What meshgate says of a pair, and the differences from an injector that are meant.

use meshgate_core::injector::Injectors;

use super::OWN;
use super::pairs::{Namespace, Pod, Shape};

/// What meshgate says of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// No rule is asked.
    Exempt,
    NotRequired,
    /// A value that the injector does not know: it would never inject.
    Invalid,
    /// Required, and no such injector or revision is installed: refused until it is.
    NotThere,
    /// Required of the injector behind this Service.
    Required(String),
}

/// A difference that is meant.
pub(super) struct Decision {
    /// As `docs/configure.md` says it; `docs::what_differs_on_purpose_is_what_the_comparison_forgives` holds it.
    pub(super) text: &'static str,
    pub(super) covers: fn(&Pair<'_>) -> bool,
    /// A namespace, a shape, and what is put before the value by which a pod asks for the injector.
    pub(super) example: (&'static str, Shape, &'static str),
}

/// An injector acted, and the pod does not show which.
pub(super) const UNSEEN: &str = "?";

/// One comparison.
pub(super) struct Pair<'p> {
    pub(super) injectors: &'p Injectors,
    pub(super) namespace: &'p Namespace,
    pub(super) pod: &'p Pod,
    pub(super) word: Word,
    /// The Service of the injector that put its sidecar in.
    pub(super) injected_by: Option<String>,
}

impl Pair<'_> {
    pub(super) fn agrees(&self) -> bool {
        match (&self.word, &self.injected_by) {
            (Word::Required(service), Some(by)) => service == by || by == UNSEEN,
            (Word::Required(_), None) => false,
            (Word::Exempt | Word::NotRequired | Word::Invalid | Word::NotThere, by) => by.is_none(),
        }
    }

    fn is_injected_unasked(&self, word: &Word) -> bool {
        self.word == *word && self.injected_by.is_some()
    }

    fn is_at_home(&self) -> bool {
        let mut all = self.injectors.iter();
        all.any(|one| one.profile.service.namespace == self.namespace.name)
    }
}

pub(super) const WINDOWS: Decision = Decision {
    text: "Windows pods are exempt. An injector may put its Linux proxy into them, but it would \
           never start there.",
    covers: |pair| pair.is_injected_unasked(&Word::Exempt) && pair.pod.shape.is_windows(),
    example: ("example", Shape::WindowsBySelector, ""),
};

pub(super) const EXCLUDED: Decision = Decision {
    text: "meshgate never looks at pods of excluded namespaces. An injector may act there.",
    covers: |pair| {
        pair.is_injected_unasked(&Word::Exempt) && pair.injectors.excludes(&pair.namespace.name)
    },
    example: (OWN, Shape::Plain, ""),
};

pub(super) const HOME: Decision = Decision {
    text: "In an injector's own namespace, labels and annotations of the namespace require \
           nothing. Otherwise the injector would wait for itself.",
    covers: |pair| pair.is_injected_unasked(&Word::NotRequired) && pair.is_at_home(),
    example: ("istio-system", Shape::Plain, ""),
};

pub(super) const HOST_NETWORK: Decision = Decision {
    text: "Pods on the host network are exempt. Dapr's injector acts on them, but the pods that run \
           a node's network must never wait for a mesh.",
    covers: |pair| pair.is_injected_unasked(&Word::Exempt) && pair.pod.shape == Shape::HostNetwork,
    example: ("example", Shape::HostNetwork, ""),
};

/// The sentences of all differences that are meant.
pub(crate) fn sentences() -> [&'static str; 4] {
    [WINDOWS, EXCLUDED, HOME, HOST_NETWORK].map(|one| one.text)
}
