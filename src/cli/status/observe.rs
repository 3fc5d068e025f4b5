//! Looks at an installation, with the rights of whoever runs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod as PodObject, Secret};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::Value;

use crate::certs::chain;
use crate::cli::break_glass;
use crate::cli::serve::state_and_reason;
use crate::cluster::watch;
use crate::injector::Injectors;
use crate::kube_api::kind::{Id, Kind};
use crate::kube_api::{call, event, objects, served, wall_clock};
use crate::render::webhooks::names_pod_entry;
use crate::render::{CONFIGURATION, OURS, OWNER};

use super::report::{Injector, Known, Leader, Observed, Pod, Refusal, Said};

/// Label of everything that an installation consists of.
const PART_OF: &str = "app.kubernetes.io/part-of=meshgate";
/// Label that says which part of it something is.
const COMPONENT: &str = "app.kubernetes.io/component";
/// How far back refusals are looked at.
const MINUTES: i64 = 10;

/// Looks at all of it.
pub(super) async fn observe(
    client: &Client,
    namespace: &str,
    given: Option<Injectors>,
) -> Observed {
    let (registration, pods, wanted, leader, serving, injectors, events) = tokio::join!(
        registration(client),
        pods(client, namespace),
        wanted(client, namespace),
        leader(client, namespace),
        serving(client, namespace),
        injectors(client, namespace, given),
        refusals(client),
    );
    let said = said(client).await;
    let breakable = match registration {
        Ok(_) => Vec::new(),
        Err(_) => breakable(client).await,
    };
    Observed {
        now: wall_clock(),
        trusted: trusted(&registration),
        registration,
        breakable,
        pods,
        wanted,
        leader,
        serving,
        injectors,
        refusals: events,
        said,
    }
}

async fn registration(client: &Client) -> Known<Vec<Value>> {
    let kinds = served(client).await.map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for kind in kinds {
        let names = kind.names();
        let params = if kind == Kind::ClusterRole {
            ListParams::default().fields(&format!("metadata.name={OWNER}"))
        } else {
            ListParams::default().labels(OURS)
        };
        let what = || format!("cannot list objects of kind {}", names.kind);
        let list = call(what, objects(client, kind).list(&params)).await;
        let list = match list {
            Ok(list) => list,
            // That the owner cannot be seen says nothing of the rest.
            Err(error) if error.is_forbidden() && kind == Kind::ClusterRole => continue,
            Err(error) => return Err(error.to_string()),
        };
        found.extend(list.into_iter().map(|object| {
            let mut value = serde_json::to_value(object).unwrap_or_default();
            value["kind"] = names.kind.into();
            value
        }));
    }
    Ok(found)
}

/// What can be switched off, with no more rights than that takes.
async fn breakable(client: &Client) -> Vec<Value> {
    let seen = break_glass::look(client).await;
    let with_kind = |(id, mut object): (Id, Value)| {
        object["kind"] = id.kind.names().kind.into();
        object
    };
    seen.objects.into_iter().map(with_kind).collect()
}

/// How many pods of each component there are to be. Who may not read it is told of the pods there are.
async fn wanted(client: &Client, namespace: &str) -> BTreeMap<String, usize> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let what = || "cannot list Deployments".to_owned();
    let list = call(what, api.list(&ListParams::default().labels(PART_OF))).await;
    let count = |one: Deployment| {
        let component = one.metadata.labels?.remove(COMPONENT)?;
        let replicas = one.spec.and_then(|spec| spec.replicas).unwrap_or(1);
        Some((component, usize::try_from(replicas).ok()?))
    };
    let all = list.into_iter().flat_map(|list| list.items);
    all.filter_map(count).collect()
}

async fn pods(client: &Client, namespace: &str) -> Known<Vec<Pod>> {
    let api: Api<PodObject> = Api::namespaced(client.clone(), namespace);
    let what = || format!("cannot list pods of namespace {namespace}");
    let list = call(what, api.list(&ListParams::default().labels(PART_OF))).await;
    let list = list.map_err(|error| error.to_string())?;
    Ok(list.items.into_iter().map(pod).collect())
}

fn pod(pod: PodObject) -> Pod {
    let labels = pod.metadata.labels.unwrap_or_default();
    let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
    let spec = pod.spec.unwrap_or_default();
    let conditions = pod.status.and_then(|status| status.conditions);
    let mut conditions = conditions.unwrap_or_default().into_iter();
    Pod {
        name: pod.metadata.name.unwrap_or_default(),
        component: label(COMPONENT),
        ready: conditions.any(|one| one.type_ == "Ready" && one.status == "True"),
        ending: pod.metadata.deletion_timestamp.is_some(),
        node: spec.node_name.unwrap_or_default(),
        configuration: label("meshgate.io/configuration"),
        image: spec
            .containers
            .into_iter()
            .next()
            .and_then(|one| one.image)
            .unwrap_or_default(),
    }
}

async fn leader(client: &Client, namespace: &str) -> Known<Option<Leader>> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let what = || "cannot read the Lease meshgate-control".to_owned();
    let lease = call(what, api.get_opt("meshgate-control")).await;
    let lease = lease.map_err(|error| error.to_string())?;
    Ok(lease.map(|lease| {
        let spec = lease.spec.unwrap_or_default();
        Leader {
            holder: spec.holder_identity.unwrap_or_default(),
            renewed: spec.renew_time.map(|time| time.0),
            holds: spec.lease_duration_seconds.unwrap_or_default().into(),
        }
    }))
}

/// The certificate that replicas serve with; its key is not looked at.
async fn serving(client: &Client, namespace: &str) -> Known<Vec<(String, Timestamp)>> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let what = || "cannot read the Secret meshgate-tls".to_owned();
    let secret = call(what, api.get_opt("meshgate-tls")).await;
    let secret = secret.map_err(|error| error.to_string())?;
    let Some(secret) = secret else {
        return Ok(Vec::new());
    };
    let data = secret.data.unwrap_or_default();
    let pem = data.get("tls.crt").map(|bytes| bytes.0.as_slice());
    chain::ends(pem.unwrap_or_default()).map_err(|error| error.to_string())
}

/// The CAs that are registered with the gate.
fn trusted(registration: &Known<Vec<Value>>) -> Known<Vec<(String, Timestamp)>> {
    use base64::Engine as _;
    let objects = registration.as_ref().map_err(Clone::clone)?;
    let is_gate = |one: &&Value| {
        one["kind"] == Kind::MutatingWebhooks.names().kind
            && one["metadata"]["name"] == CONFIGURATION
    };
    let Some(gate) = objects.iter().find(is_gate) else {
        return Ok(Vec::new());
    };
    let mut bundles = gate["webhooks"].as_array().into_iter().flatten();
    let bundle = bundles.find_map(|entry| entry["clientConfig"]["caBundle"].as_str());
    let Some(bundle) = bundle else {
        return Err("the API server's own CAs are used".to_owned());
    };
    let pem = base64::engine::general_purpose::STANDARD.decode(bundle);
    let pem = pem.map_err(|error| format!("the registered caBundle is no base64: {error}"))?;
    chain::ends(&pem).map_err(|error| error.to_string())
}

async fn injectors(
    client: &Client,
    namespace: &str,
    given: Option<Injectors>,
) -> Known<Vec<Injector>> {
    let injectors = match given {
        Some(given) => given,
        None => configured(client, namespace).await?,
    };
    let store = watch::snapshot(client, Arc::new(injectors)).await?;
    let tell = |state: &crate::cluster::report::State<'_>| {
        let (word, why) = state_and_reason(state);
        let name = &state.injector.profile.name;
        let name = match state.instance {
            Some(instance) => format!("{name} {instance}"),
            None => name.clone(),
        };
        Injector {
            name,
            state: word,
            why,
        }
    };
    Ok(store.states().iter().map(tell).collect())
}

/// The configuration that the Deployment mounts.
async fn configured(client: &Client, namespace: &str) -> Known<Injectors> {
    let no = |why: &str| format!("{why}; give --config FILE");
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let what = || "cannot read the Deployment meshgate".to_owned();
    let found = call(what, api.get_opt("meshgate")).await;
    let found = found.map_err(|error| no(&error.to_string()))?;
    let found =
        found.ok_or_else(|| no("there is no Deployment meshgate to see the configuration of"))?;
    let pod = found
        .spec
        .and_then(|spec| spec.template.spec)
        .unwrap_or_default();
    let volumes = pod.volumes.unwrap_or_default().into_iter();
    let mut maps = volumes
        .filter_map(|volume| volume.config_map)
        .map(|map| map.name);
    let name = maps.find(|name| name.starts_with("meshgate-"));
    let name = name.ok_or_else(|| no("the Deployment meshgate mounts no ConfigMap meshgate-…"))?;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = call(
        || format!("cannot read the ConfigMap {name}"),
        api.get(&name),
    )
    .await;
    let map = map.map_err(|error| no(&error.to_string()))?;
    let data = map.data.unwrap_or_default();
    let text = data.get("meshgate.yaml");
    let text = text.ok_or_else(|| no(&format!("the ConfigMap {name} has no key meshgate.yaml")))?;
    Injectors::from_yaml(&name, text.as_bytes()).map_err(|error| error.to_string())
}

/// Refusals of ours that controllers have met.
async fn refusals(client: &Client) -> Known<Vec<Refusal>> {
    let api: Api<Event> = Api::all(client.clone());
    let params = ListParams::default().fields("reason=FailedCreate");
    let list = call(|| "cannot list Events".to_owned(), api.list(&params)).await;
    let list = list.map_err(|error| error.to_string())?;
    let since = wall_clock().as_second() - MINUTES * 60;
    let refusal = |event: Event| {
        let message = event.message.clone().unwrap_or_default();
        let last = when(&event)?;
        let is_ours = names_pod_entry(&message);
        let owner = event.involved_object;
        let owner = [owner.kind, owner.namespace, owner.name].map(Option::unwrap_or_default);
        let [kind, namespace, name] = owner;
        (is_ours && last.as_second() >= since).then(|| Refusal {
            owner: format!("{kind} {namespace}/{name}"),
            count: event.count.unwrap_or(1),
            last,
            message,
        })
    };
    Ok(list.items.into_iter().filter_map(refusal).collect())
}

fn when(event: &Event) -> Option<Timestamp> {
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let of_series = event
        .series
        .as_ref()
        .and_then(|series| series.last_observed_time.as_ref());
    let first = event.event_time.as_ref().map(|time| time.0);
    last.or_else(|| Some(of_series?.0)).or(first)
}

/// What meshgate said last of the registration. That it cannot be seen is no matter.
async fn said(client: &Client) -> Option<Said> {
    let api: Api<Event> = Api::namespaced(client.clone(), event::NAMESPACE);
    let params = ListParams::default().fields(&format!("involvedObject.name={CONFIGURATION}"));
    let list = call(|| "cannot list Events".to_owned(), api.list(&params))
        .await
        .ok()?;
    let said = |event: Event| {
        let reason = event.reason.clone()?;
        let is_wrong = reason == event::NOT_AS_WANTED;
        (is_wrong || reason == event::AS_WANTED).then_some(())?;
        Some(Said {
            at: when(&event)?,
            text: event.message.unwrap_or_default(),
            is_wrong,
        })
    };
    list.items
        .into_iter()
        .filter_map(said)
        .max_by_key(|said| said.at)
}
