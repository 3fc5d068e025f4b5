//! Looks at an installation, with the rights of the user who runs `status`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod as PodObject, Secret};
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use meshgate_core::injector::Injectors;
use meshgate_core::names::{CONFIGURATION, CONFIGURATION_LABEL, CONTROL, OWNER, PART_OF};
use meshgate_core::render::webhooks::names_pod_entry;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::certs::chain;
use crate::cli::break_glass;
use crate::cli::output;
use crate::cli::states;
use crate::cluster::store::Store;
use crate::cluster::watch;
use crate::cluster::workloads::Workloads;
use crate::controllers::registration::observed::Object;
use crate::kube_api::kind::{Id, Kind};
use crate::kube_api::{self, call, event, served};
use crate::lifecycle::wall_clock;

use super::observed::{Ends, Known, Leader, Observed, Pod, Refusal, Registration, Said};
use super::owners::{self, when};

/// Label that names the component of a Deployment or pod.
const COMPONENT: &str = "app.kubernetes.io/component";
/// How long the owners of pods of a large cluster may take, so that the rest is told in time.
const LONGEST: Duration = Duration::from_secs(15);
/// How far back `status` looks for refusals.
const MINUTES: i64 = 10;

/// Looks at all of it.
pub(super) async fn observe(
    client: &Client,
    namespace: &str,
    given: Option<Injectors>,
) -> Observed {
    let (registration, pods, wanted, leader, serving, cluster, failures, said) = tokio::join!(
        registration(client),
        pods(client, namespace),
        wanted(client, namespace),
        leader(client, namespace),
        serving(client, namespace),
        cluster(client, namespace, given),
        failures(client),
        said(client),
    );
    let (injectors, owners) = match cluster {
        Ok((store, owners)) => (Ok(states::of(&store)), owners.map(|owners| (store, owners))),
        Err(why) => (Err(anyhow!("{why:#}")), Err(why)),
    };
    let now = wall_clock();
    let (refusals, owners) = match failures {
        Ok(events) => {
            let owners = owners.map(|(store, view)| owners::of(&view, &store, &events, now));
            (Ok(refusals(events, now)), owners)
        }
        Err(why) => (Err(anyhow!("{why:#}")), Err(why)),
    };
    let breakable = match registration {
        Ok(_) => Registration::new(),
        Err(_) => breakable(client).await,
    };
    Observed {
        now,
        trusted: trusted(&registration),
        registration,
        breakable,
        pods,
        wanted,
        leader,
        serving,
        injectors,
        refusals,
        owners,
        said,
    }
}

/// An object in meshgate's namespace, if it exists.
async fn get<K>(client: &Client, namespace: &str, name: &str) -> Known<Option<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let what = || format!("cannot read the {} {name}", K::kind(&()));
    Ok(call(what, api.get_opt(name)).await?)
}

/// The selected objects of a kind.
async fn list<K>(api: Api<K>, params: ListParams) -> Known<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let what = || format!("cannot list objects of kind {}", K::kind(&()));
    Ok(call(what, api.list(&params)).await?.items)
}

async fn registration(client: &Client) -> Known<Registration> {
    let mut found = Registration::new();
    for kind in served(client).await? {
        let objects = if kind == Kind::ClusterRole {
            // A missing right to see the owner says nothing about the rest.
            let id = Id::new(kind, OWNER);
            match kube_api::read(client, &id).await {
                Err(error) if error.is_forbidden() => Vec::new(),
                owner => owner?.map(|owner| (id, owner)).into_iter().collect(),
            }
        } else {
            kube_api::ours(client, kind).await?
        };
        for (id, object) in objects {
            let object = Object::of(&id, object)?;
            found.insert(id, object);
        }
    }
    Ok(found)
}

/// What `break-glass` can switch off, read with no more rights than `break-glass` needs.
async fn breakable(client: &Client) -> Registration {
    parsed(break_glass::look(client).await.objects)
}

/// Reports what cannot be parsed, and leaves it out.
fn parsed(objects: Vec<(Id, Value)>) -> Registration {
    let parsed = objects.into_iter().filter_map(|(id, object)| {
        let object = Object::of(&id, object).inspect_err(|why| output::note(&why.to_string()));
        Some((id, object.ok()?))
    });
    parsed.collect()
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
        configuration: label(CONFIGURATION_LABEL),
        image: image.unwrap_or_default(),
    }
}

async fn leader(client: &Client, namespace: &str) -> Known<Option<Leader>> {
    let lease = get(client, namespace, CONTROL).await?;
    Ok(lease.map(|lease: Lease| {
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
    let Some(secret) = get::<Secret>(client, namespace, "meshgate-tls").await? else {
        return Ok(Vec::new());
    };
    let data = secret.data.unwrap_or_default();
    let pem = data.get("tls.crt").map(|bytes| bytes.0.as_slice());
    Ok(chain::ends(pem.unwrap_or_default())?)
}

/// The CAs that are registered with the gate.
fn trusted(registration: &Known<Registration>) -> Known<Ends> {
    let objects = registration.as_ref().map_err(|why| anyhow!("{why:#}"))?;
    let Some(gate) = objects.get(&Id::new(Kind::MutatingWebhooks, CONFIGURATION)) else {
        return Ok(Vec::new());
    };
    let mut configs = gate.entries().iter().map(|entry| &entry.client_config);
    let bundle = configs.find_map(|config| config.ca_bundle.as_ref());
    let bundle = bundle.context("the API server uses its own CAs")?;
    let pem = STANDARD.decode(bundle);
    let pem = pem.context("the registered caBundle is no base64")?;
    Ok(chain::ends(&pem)?)
}

/// The state of the injectors, and the owners of pods, which a user may have no right to list.
async fn cluster(
    client: &Client,
    namespace: &str,
    given: Option<Injectors>,
) -> Known<(Store, Known<Workloads>)> {
    let injectors = match given {
        Some(given) => given,
        None => configured(client, namespace)
            .await
            .map_err(|why| anyhow!("{why:#}; give --config FILE"))?,
    };
    let injectors = Arc::new(injectors.excluding(namespace));
    let store = watch::snapshot(client, Arc::clone(&injectors)).await;
    let mut store = store.map_err(anyhow::Error::msg)?;
    let owners = async {
        watch::namespaces(client, &mut store).await?;
        watch::owners(client, &injectors, wall_clock()).await
    };
    let owners = match timeout(LONGEST, owners).await {
        Ok(owners) => owners.map_err(anyhow::Error::msg),
        Err(_) => Err(anyhow!(
            "the API server did not list them within {LONGEST:?}"
        )),
    };
    Ok((store, owners))
}

/// The configuration that the Deployment mounts.
async fn configured(client: &Client, namespace: &str) -> Known<Injectors> {
    let found = get::<Deployment>(client, namespace, "meshgate").await?;
    let found = found.context("there is no Deployment meshgate, which would name its ConfigMap")?;
    let pod = found.spec.and_then(|spec| spec.template.spec);
    let volumes = pod.and_then(|pod| pod.volumes).into_iter().flatten();
    let maps = volumes.filter_map(|volume| volume.config_map);
    let mut names = maps.map(|map| map.name);
    let name = names.find(|name| name.starts_with("meshgate-"));
    let name = name.context("the Deployment meshgate mounts no ConfigMap meshgate-…")?;
    let map = get::<ConfigMap>(client, namespace, &name).await?;
    let map = map.with_context(|| format!("there is no ConfigMap {name}"))?;
    let data = map.data.unwrap_or_default();
    let text = data.get("meshgate.yaml");
    let text = text.with_context(|| format!("the ConfigMap {name} has no key meshgate.yaml"))?;
    Ok(Injectors::from_yaml(&name, text.as_bytes())?)
}

/// What controllers have recorded of pods that they could not create.
async fn failures(client: &Client) -> Known<Vec<Event>> {
    let params = ListParams::default().fields("reason=FailedCreate");
    list(Api::<Event>::all(client.clone()), params).await
}

/// Those of meshgate.
fn refusals(events: Vec<Event>, now: Timestamp) -> Vec<Refusal> {
    let since = now.as_second() - MINUTES * 60;
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
    events.into_iter().filter_map(refusal).collect()
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

#[cfg(test)]
#[path = "observe_tests.rs"]
mod tests;
