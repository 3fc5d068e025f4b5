//! What a pod mounts, as folders of the lab.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, KeyToPath, Secret, ServiceAccount,
    ServiceAccountTokenProjection, Volume, VolumeProjection,
};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};

use crate::environment::{Place, field};

/// Files of one volume: paths in it, and what they hold.
type Files = BTreeMap<String, Vec<u8>>;

/// Writes all volumes of the pod below `folder`; each is a folder with the volume's name.
///
/// # Errors
///
/// When something that they hold is not there (yet).
pub(crate) async fn write(client: &Client, place: Place<'_>, folder: &Path) -> Result<()> {
    let volumes = place
        .pod
        .spec
        .as_ref()
        .and_then(|spec| spec.volumes.as_ref());
    for volume in volumes.into_iter().flatten() {
        let at = folder_of(folder, &volume.name);
        fs::create_dir_all(&at)?;
        let files = files(client, place, volume).await;
        for (path, bytes) in files.with_context(|| format!("volume {}", volume.name))? {
            let path = at.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, bytes)?;
        }
    }
    Ok(())
}

/// Where a volume is.
pub(crate) fn folder_of(folder: &Path, volume: &str) -> PathBuf {
    folder.join("volumes").join(volume)
}

async fn files(client: &Client, place: Place<'_>, volume: &Volume) -> Result<Files> {
    if let Some(map) = &volume.config_map {
        let all = config_map(client, place, &map.name).await?;
        return chosen(all, map.items.as_deref());
    }
    if let Some(secret) = &volume.secret {
        let name = secret.secret_name.as_deref().unwrap_or_default();
        return chosen(
            self::secret(client, place, name).await?,
            secret.items.as_deref(),
        );
    }
    if let Some(fields) = &volume.downward_api {
        return downward(place, fields.items.as_deref());
    }
    if let Some(projected) = &volume.projected {
        let mut all = Files::new();
        for source in projected.sources.iter().flatten() {
            all.extend(projection(client, place, source).await?);
        }
        return Ok(all);
    }
    if volume.empty_dir.is_some() {
        return Ok(Files::new());
    }
    bail!("it is of no kind that this kubelet knows")
}

async fn projection(client: &Client, place: Place<'_>, source: &VolumeProjection) -> Result<Files> {
    if let Some(wanted) = &source.service_account_token {
        let token = token(client, place, wanted).await?;
        return Ok(Files::from([(wanted.path.clone(), token.into_bytes())]));
    }
    if let Some(map) = &source.config_map {
        let all = config_map(client, place, &map.name).await?;
        return chosen(all, map.items.as_deref());
    }
    if let Some(secret) = &source.secret {
        return chosen(
            self::secret(client, place, &secret.name).await?,
            secret.items.as_deref(),
        );
    }
    if let Some(fields) = &source.downward_api {
        return downward(place, fields.items.as_deref());
    }
    bail!("it has a source that this kubelet does not know")
}

fn namespaced<K>(client: &Client, place: Place<'_>) -> Api<K>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    Api::namespaced(client.clone(), &place.pod.namespace().unwrap_or_default())
}

async fn config_map(client: &Client, place: Place<'_>, name: &str) -> Result<Files> {
    let map: ConfigMap = namespaced(client, place).get(name).await?;
    let texts = map.data.unwrap_or_default().into_iter();
    let texts = texts.map(|(key, text)| (key, text.into_bytes()));
    let bytes = map.binary_data.unwrap_or_default().into_iter();
    Ok(texts
        .chain(bytes.map(|(key, bytes)| (key, bytes.0)))
        .collect())
}

async fn secret(client: &Client, place: Place<'_>, name: &str) -> Result<Files> {
    let secret: Secret = namespaced(client, place).get(name).await?;
    let data = secret.data.unwrap_or_default().into_iter();
    Ok(data.map(|(key, bytes)| (key, bytes.0)).collect())
}

/// Those keys that `items` names, under the paths that it gives them.
fn chosen(mut all: Files, items: Option<&[KeyToPath]>) -> Result<Files> {
    let Some(items) = items else { return Ok(all) };
    let mut files = Files::new();
    for item in items {
        let bytes = all.remove(&item.key);
        let bytes = bytes.with_context(|| format!("there is no key {}", item.key))?;
        files.insert(item.path.clone(), bytes);
    }
    Ok(files)
}

fn downward(place: Place<'_>, items: Option<&[DownwardAPIVolumeFile]>) -> Result<Files> {
    let mut files = Files::new();
    for item in items.into_iter().flatten() {
        let wanted = item.field_ref.as_ref().context("only fieldRef is known")?;
        files.insert(item.path.clone(), field(place, wanted)?.into_bytes());
    }
    Ok(files)
}

/// A token that is good for as long as the pod is there. It lasts longer than any test, so it is not
/// renewed.
async fn token(
    client: &Client,
    place: Place<'_>,
    wanted: &ServiceAccountTokenProjection,
) -> Result<String> {
    let pod = place.pod;
    let account = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.service_account_name.clone());
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: wanted.audience.clone().into_iter().collect(),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: pod.metadata.name.clone(),
                uid: pod.uid(),
            }),
            expiration_seconds: Some(wanted.expiration_seconds.unwrap_or(3607).max(36_000)),
        },
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = namespaced(client, place);
    let account = account.unwrap_or_else(|| "default".to_owned());
    let made = accounts
        .create_token_request(&account, &PostParams::default(), &request)
        .await?;
    Ok(made.status.context("a token without a status")?.token)
}
