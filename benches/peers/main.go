// A typical controller-runtime handler of the gate's job: decode the pod, set one annotation, answer
// with the difference. `controller-runtime ADDRESS CERTS_DIR`, started by bench-http.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

type gate struct {
	decoder admission.Decoder
}

func (g *gate) Handle(_ context.Context, request admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := g.decoder.Decode(request, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations["meshgate.io/admitted"] = "linkerd"
	marshaled, err := json.Marshal(pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, marshaled)
}

func run() error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: controller-runtime ADDRESS CERTS_DIR")
	}
	log.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	hook := &webhook.Admission{Handler: &gate{decoder: admission.NewDecoder(scheme)}}
	handler, err := admission.StandaloneWebhook(hook, admission.StandaloneOptions{})
	if err != nil {
		return err
	}
	certs := os.Args[2]
	mux := http.NewServeMux()
	mux.Handle("/mutate/pods", handler)
	server := &http.Server{Addr: os.Args[1], Handler: mux, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	return server.ListenAndServeTLS(filepath.Join(certs, "tls.crt"), filepath.Join(certs, "tls.key"))
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
