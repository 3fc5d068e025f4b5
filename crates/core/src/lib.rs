//! What meshgate decides and what it tells API servers, as pure functions over plain values.
//!
//! No async, clock, IO or logging: `Cargo.toml` of this crate has no dependency that could do them.
//! The callers fetch, this crate decides, the callers answer.
//!
//! A pod that requires Linkerd, while no injector is installed:
//!
//! ```
//! use meshgate_core::decision::verdict::Verdict;
//! use meshgate_core::decision::{gate, requirement};
//! use meshgate_core::injector::Injectors;
//! use meshgate_core::readiness::Readiness;
//! use meshgate_core::view::namespace::NamespaceView;
//! use meshgate_core::view::pod::PodView;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let injectors = Injectors::all_presets()?;
//! let annotations = [("linkerd.io/inject", "enabled")];
//! let namespace = NamespaceView::new("orders", [], annotations, injectors.keys());
//! let json = r#"{"metadata": {"name": "shop"}, "spec": {"containers": [{"name": "app"}]}}"#;
//! let pod = PodView::read(json, injectors.keys())?;
//!
//! let requirement = requirement::of(&pod, &namespace, &injectors);
//! let decision = gate::decide(&pod, &requirement, |_| Readiness::NotInstalled);
//!
//! assert_eq!(decision.verdict, Verdict::Defer);
//! let sentence = "Namespace orders requires linkerd (annotation linkerd.io/inject=enabled) \
//!                 but linkerd is not installed";
//! assert!(decision.message.starts_with(sentence));
//! # Ok(())
//! # }
//! ```
//!
//! From the leaves up: [`names`], [`text`], [`list`] and [`yaml`]; [`injector`] and [`config`], which reads it;
//! [`view`] and [`readiness`], the facts about a pod and about an injector; [`decision`] with its
//! sentences in [`message`]; [`render`], the same rules for the API server to evaluate.
#![warn(missing_docs)]

pub mod audit;
pub mod break_glass;
pub mod certs;
mod condition;
pub mod config;
pub mod decision;
pub mod injector;
pub mod list;
pub mod message;
pub mod names;
pub mod readiness;
pub mod render;
pub mod text;
pub mod view;
pub mod yaml;
