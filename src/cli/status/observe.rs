//! Looks at an installation, with the rights of the user who runs `status`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod as PodObject, Secret};
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use meshgate_core::injector::Injectors;
use meshgate_core::render::webhooks::names_pod_entry;
use meshgate_core::render::{CONFIGURATION, OURS, OWNER};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::certs::chain;
use crate::cli::break_glass;
use crate::cli::states::{self, InjectorState};
use crate::cluster::watch;
use crate::kube_api::kind::{Id, Kind};
use crate::kube_api::{call, event, objects, served};
use crate::lifecycle::wall_clock;

use super::observed::{Ends, Known, Leader, Observed, Pod, Refusal, Said};

/// Label of everything that an installation consists of.
const PART_OF: &str = "app.kubernetes.io/part-of=meshgate";
/// Label that names the component of a Deployment or pod.
const COMPONENT: &str = "app.kubernetes.io/component";
/// How far back `status` looks for refusals.
const MINUTES: i64 = 10;

/// Looks at all of it.
pub(super) async fn observe(
    client: &Client,
    namespace: &str,
    given: Option<Injectors>,
) -> Observed {
    let (registration, pods, wanted, leader, serving, injectors, refusals, said) = tokio::join!(
        registration(client),
        pods(client, namespace),
        wanted(client, namespace),
        leader(client, namespace),
        serving(client, namespace),
        injectors(client, namespace, given),
        refusals(client),
        said(client),
    );
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
        refusals,
        said,
    }
}

/// An object of a kind, if it exists.
async fn get<K>(api: Api<K>, name: &str) -> Known<Option<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let what = || format!("cannot read the {} {name}", K::kind(&()));
    let object = call(what, api.get_opt(name)).await;
    object.map_err(|error| error.to_string())
}

/// The selected objects of a kind.
async fn list<K>(api: Api<K>, params: ListParams) -> Known<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let what = || format!("cannot list objects of kind {}", K::kind(&()));
    let list = call(what, api.list(&params)).await;
    Ok(list.map_err(|error| error.to_string())?.items)
}

async fn registration(client: &Client) -> Known<Vec<Value>> {
    let kinds = served(client).await.map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for kind in kinds {
        let params = if kind == Kind::ClusterRole {
            ListParams::default().fields(&format!("metadata.name={OWNER}"))
        } else {
            ListParams::default().labels(OURS)
        };
        let what = || format!("cannot list objects of kind {}", kind.as_str());
        let list = match call(what, objects(client, kind).list(&params)).await {
            Ok(list) => list,
            // A missing right to see the owner says nothing about the rest.
            Err(error) if error.is_forbidden() && kind == Kind::ClusterRole => continue,
            Err(error) => return Err(error.to_string()),
        };
        found.extend(list.into_iter().map(|object| {
            let mut value = serde_json::to_value(object).unwrap_or_default();
            value["kind"] = kind.as_str().into();
            value
        }));
    }
    Ok(found)
}

/// What `break-glass` can switch off, read with no more rights than `break-glass` needs.
async fn breakable(client: &Client) -> Vec<Value> {
    let seen = break_glass::look(client).await;
    let with_kind = |(id, mut object): (Id, Value)| {
        object["kind"] = id.kind.as_str().into();
        object
    };
    seen.objects.into_iter().map(with_kind).collect()
}

/// How many pods of each component the Deployments want. Without the right to read them, `status`
/// reports the pods that exist.
async fn wanted(client: &Client, namespace: &str) -> BTreeMap<String, usize> {
    let api = Api::<Deployment>::namespaced(client.clone(), namespace);
    let all = list(api, ListParams::default().labels(PART_OF)).await;
    let count = |one: Deployment| {
        let component = one.metadata.labels?.remove(COMPONENT)?;
        let replicas = one.spec.and_then(|spec| spec.replicas).unwrap_or(1);
        Some((component, usize::try_from(replicas).ok()?))
    };
    all.into_iter().flatten().filter_map(count).collect()
}

async fn pods(client: &Client, namespace: &str) -> Known<Vec<Pod>> {
    let api: Api<PodObject> = Api::namespaced(client.clone(), namespace);
    let pods = list(api, ListParams::default().labels(PART_OF)).await?;
    Ok(pods.into_iter().map(pod).collect())
}

fn pod(pod: PodObject) -> Pod {
    let labels = pod.metadata.labels.unwrap_or_default();
    let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
    let spec = pod.spec.unwrap_or_default();
    let conditions = pod.status.and_then(|status| status.conditions);
    let mut conditions = conditions.into_iter().flatten();
    let image = spec.containers.into_iter().next().and_then(|one| one.image);
    Pod {
        name: pod.metadata.name.unwrap_or_default(),
        component: label(COMPONENT),
        ready: conditions.any(|one| one.type_ == "Ready" && one.status == "True"),
        ending: pod.metadata.deletion_timestamp.is_some(),
        node: spec.node_name.unwrap_or_default(),
        configuration: label("meshgate.io/configuration"),
        image: image.unwrap_or_default(),
    }
}

async fn leader(client: &Client, namespace: &str) -> Known<Option<Leader>> {
    let leases = Api::<Lease>::namespaced(client.clone(), namespace);
    let lease = get(leases, "meshgate-control").await?;
    Ok(lease.map(|lease| {
        let spec = lease.spec.unwrap_or_default();
        Leader {
            holder: spec.holder_identity.unwrap_or_default(),
            renewed: spec.renew_time.map(|time| time.0),
            holds: spec.lease_duration_seconds.unwrap_or_default().into(),
        }
    }))
}

/// The certificate that replicas serve with. Its key is ignored.
async fn serving(client: &Client, namespace: &str) -> Known<Ends> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let Some(secret) = get(api, "meshgate-tls").await? else {
        return Ok(Vec::new());
    };
    let data = secret.data.unwrap_or_default();
    let pem = data.get("tls.crt").map(|bytes| bytes.0.as_slice());
    chain::ends(pem.unwrap_or_default()).map_err(|error| error.to_string())
}

/// The CAs that are registered with the gate.
fn trusted(registration: &Known<Vec<Value>>) -> Known<Ends> {
    use base64::Engine as _;
    let objects = registration.as_ref().map_err(Clone::clone)?;
    let is_gate = |one: &&Value| {
        one["kind"] == Kind::MutatingWebhooks.as_str() && one["metadata"]["name"] == CONFIGURATION
    };
    let Some(gate) = objects.iter().find(is_gate) else {
        return Ok(Vec::new());
    };
    let mut bundles = gate["webhooks"].as_array().into_iter().flatten();
    let bundle = bundles.find_map(|entry| entry["clientConfig"]["caBundle"].as_str());
    let bundle = bundle.ok_or("the API server uses its own CAs")?;
    let pem = base64::engine::general_purpose::STANDARD.decode(bundle);
    let pem = pem.map_err(|error| format!("the registered caBundle is no base64: {error}"))?;
    chain::ends(&pem).map_err(|error| error.to_string())
}

async fn injectors(
    client: &Client,
    namespace: &str,
    given: Option<Injectors>,
) -> Known<Vec<InjectorState>> {
    let injectors = match given {
        Some(given) => given,
        None => configured(client, namespace)
            .await
            .map_err(|why| format!("{why}; give --config FILE"))?,
    };
    let store = watch::snapshot(client, Arc::new(injectors)).await?;
    Ok(states::of(&store))
}

/// The configuration that the Deployment mounts.
async fn configured(client: &Client, namespace: &str) -> Known<Injectors> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let found = get(api, "meshgate").await?;
    let found = found.ok_or("there is no Deployment meshgate, which would name its ConfigMap")?;
    let pod = found.spec.and_then(|spec| spec.template.spec);
    let volumes = pod.and_then(|pod| pod.volumes).into_iter().flatten();
    let maps = volumes.filter_map(|volume| volume.config_map);
    let mut names = maps.map(|map| map.name);
    let name = names.find(|name| name.starts_with("meshgate-"));
    let name = name.ok_or("the Deployment meshgate mounts no ConfigMap meshgate-…")?;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = get(api, &name).await?;
    let map = map.ok_or_else(|| format!("there is no ConfigMap {name}"))?;
    let data = map.data.unwrap_or_default();
    let text = data.get("meshgate.yaml");
    let text = text.ok_or_else(|| format!("the ConfigMap {name} has no key meshgate.yaml"))?;
    Injectors::from_yaml(&name, text.as_bytes()).map_err(|error| error.to_string())
}

/// The refusals by meshgate that controllers have recorded.
async fn refusals(client: &Client) -> Known<Vec<Refusal>> {
    let params = ListParams::default().fields("reason=FailedCreate");
    let events = list(Api::<Event>::all(client.clone()), params).await?;
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
    Ok(events.into_iter().filter_map(refusal).collect())
}

fn when(event: &Event) -> Option<Timestamp> {
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let series = event.series.as_ref();
    let of_series = series.and_then(|series| series.last_observed_time.as_ref());
    let first = event.event_time.as_ref().map(|time| time.0);
    last.or_else(|| of_series.map(|time| time.0)).or(first)
}

/// The latest of meshgate's own Events about the registration. `status` does without it where the
/// user may not read Events.
async fn said(client: &Client) -> Option<Said> {
    let api: Api<Event> = Api::namespaced(client.clone(), event::NAMESPACE);
    let params = ListParams::default().fields(&format!("involvedObject.name={CONFIGURATION}"));
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
    let events = list(api, params).await.ok()?;
    let said = events.into_iter().filter_map(said);
    said.max_by_key(|said| said.at)
}
