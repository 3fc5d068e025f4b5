//! A namespace and a pod in it, for the API server and for the decisions.

use std::collections::BTreeSet;

use meshgate_core::decision::exemption;
use meshgate_core::injector::Injectors;
use meshgate_core::injector::profile::ContainerName;
use meshgate_core::view::namespace::NamespaceView;
use meshgate_core::view::pod::PodView;
use serde_json::{Value, json};

use super::draw::Draw;
use super::marks::{Marks, Vocabulary};

/// The Node that mirror pods are bound to.
pub(super) const NODE: &str = "node-1";

/// A namespace as it is in the API server.
#[derive(Clone, Debug)]
pub(super) struct Namespace {
    pub(super) name: String,
    pub(super) marks: Marks,
}

impl Namespace {
    pub(super) fn view(&self, injectors: &Injectors) -> NamespaceView {
        let Marks {
            labels,
            annotations,
        } = &self.marks;
        NamespaceView::new(
            &self.name,
            Marks::pairs(labels),
            Marks::pairs(annotations),
            injectors.keys(),
        )
    }
}

/// What else a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Plain,
    HostNetwork,
    WindowsByOs,
    WindowsBySelector,
    /// Exempts no pod.
    WindowsByAffinity,
    /// Created by a user who is no kubelet; exempts no pod.
    MirrorByUser,
    MirrorByNode,
}

impl Shape {
    pub(super) fn is_windows(self) -> bool {
        matches!(self, Self::WindowsByOs | Self::WindowsBySelector)
    }

    fn drawn(draw: &mut Draw, has_node: bool) -> Self {
        match draw.below(100) {
            0..5 => Self::HostNetwork,
            5..8 => Self::WindowsByOs,
            8..11 => Self::WindowsBySelector,
            11..13 => Self::WindowsByAffinity,
            13..15 => Self::MirrorByUser,
            15..18 if has_node => Self::MirrorByNode,
            _ => Self::Plain,
        }
    }
}

/// Where a container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Init,
    Native,
}

#[derive(Clone, Debug)]
struct Container {
    name: String,
    image: &'static str,
    kind: Kind,
}

/// A pod as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) marks: Marks,
    pub(super) shape: Shape,
    containers: Vec<Container>,
}

impl Pod {
    /// One with these marks and no container of any injector.
    pub(super) fn plain(name: &str, marks: Marks, shape: Shape) -> Self {
        Self {
            name: name.to_owned(),
            marks,
            shape,
            containers: Vec::new(),
        }
    }

    /// One with random marks and no container of any injector.
    pub(super) fn bare(number: usize, vocabulary: &Vocabulary, draw: &mut Draw) -> Self {
        let marks = vocabulary.pod(draw);
        Self::plain(&format!("p-{number}"), marks, Shape::drawn(draw, false))
    }

    /// One that may hold these containers.
    pub(super) fn with(
        number: usize,
        vocabulary: &Vocabulary,
        known: &[Known],
        draw: &mut Draw,
    ) -> Self {
        let mut containers = Vec::new();
        for one in known {
            if !draw.chance(60) {
                continue;
            }
            let usual: &[Kind] = if one.is_init {
                &[Kind::Init]
            } else {
                &[Kind::Plain, Kind::Native]
            };
            let any = [Kind::Plain, Kind::Init, Kind::Native];
            let kinds = if draw.chance(80) { usual } else { &any };
            containers.push(Container {
                name: one.name.clone(),
                image: if draw.chance(15) {
                    "auto"
                } else {
                    "example.com/proxy:1"
                },
                kind: *draw.pick(kinds),
            });
        }
        Self {
            shape: Shape::drawn(draw, true),
            containers,
            ..Self::bare(number, vocabulary, draw)
        }
    }

    /// The object. `node` is the UID of the Node.
    pub(super) fn json(&self, node: &str) -> Value {
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": self.marks.metadata(&self.name),
            "spec": {"containers": [{"name": "web", "image": "example.com/web"}]},
        });
        for container in &self.containers {
            let mut own = json!({"name": container.name, "image": container.image});
            let list = match container.kind {
                Kind::Plain => "containers",
                Kind::Init => "initContainers",
                Kind::Native => {
                    own["restartPolicy"] = json!("Always");
                    "initContainers"
                }
            };
            let list = &mut pod["spec"][list];
            if list.is_null() {
                *list = json!([]);
            }
            list.as_array_mut().unwrap().push(own);
        }
        let linux_not = json!({"kubernetes.io/os": "windows"});
        match self.shape {
            Shape::Plain => {}
            Shape::HostNetwork => pod["spec"]["hostNetwork"] = json!(true),
            Shape::WindowsByOs => pod["spec"]["os"] = json!({"name": "windows"}),
            Shape::WindowsBySelector => pod["spec"]["nodeSelector"] = linux_not,
            Shape::WindowsByAffinity => {
                let term =
                    json!({"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]});
                pod["spec"]["affinity"] = json!({"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution":
                        {"nodeSelectorTerms": [{"matchExpressions": [term]}]},
                }});
            }
            Shape::MirrorByUser | Shape::MirrorByNode => {
                pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = json!("0a1b");
                pod["metadata"]["ownerReferences"] = json!([{
                    "apiVersion": "v1", "kind": "Node", "name": NODE, "uid": node, "controller": true,
                }]);
                pod["spec"]["nodeName"] = json!(NODE);
            }
        }
        pod
    }

    /// Whether no rule is asked, by what the pod is or by its namespace's name.
    pub(super) fn is_exempt(
        &self,
        view: &PodView<'_>,
        namespace: &Namespace,
        injectors: &Injectors,
    ) -> bool {
        let by_node = self.shape == Shape::MirrorByNode;
        let in_group = |group: &str| by_node && group == "system:nodes";
        injectors.excludes(&namespace.name) || exemption::of(view, in_group).is_some()
    }
}

/// A container that an injector adds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Known {
    name: String,
    is_init: bool,
}

/// All containers that injectors add.
pub(super) fn containers(injectors: &Injectors) -> Vec<Known> {
    let mut known = BTreeSet::new();
    for set in injectors.iter().flat_map(|one| &one.profile.injected) {
        let init = set.init.iter().cloned();
        let sidecar = set.sidecar.iter().map(|name| match name {
            ContainerName::Exact(name) => name.clone(),
            ContainerName::Prefix(start) => format!("{start}one"),
        });
        known.extend(init.map(|name| Known {
            name,
            is_init: true,
        }));
        known.extend(sidecar.map(|name| Known {
            name,
            is_init: false,
        }));
    }
    known.into_iter().collect()
}
