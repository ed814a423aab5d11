// Kubernetes' control plane in one program, for the suite `cluster`: the first argument names the part that runs.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if len(os.Args) < 2 {
		fail("name a part: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, external-metrics, kubectl")
	}
	part := os.Args[1]
	os.Args = os.Args[1:]
	if part == "kubectl" {
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			util.CheckErr(err)
		}
		return
	}
	go endWithRunner()
	switch part {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "external-metrics":
		fail(externalMetrics(os.Args[1:]))
	default:
		fail("there is no part " + part)
	}
}

// The task runner holds the other end of standard input: however it ends, no part outlives it.
func endWithRunner() {
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// Plays the adapter between Prometheus and the autoscaler: ADDRESS PATH SELECTOR FILE. Answers the one question that the file's
// number is the answer to, so that an autoscaler which asks for another metric gets none.
func externalMetrics(arguments []string) error {
	if len(arguments) != 4 {
		return fmt.Errorf("external-metrics takes ADDRESS PATH SELECTOR FILE")
	}
	address, path, selector, file := arguments[0], arguments[1], arguments[2], arguments[3]
	const version = "external.metrics.k8s.io/v1beta1"
	answer := func(response http.ResponseWriter, request *http.Request) {
		response.Header().Set("content-type", "application/json")
		switch {
		case request.URL.Path == "/apis/"+version:
			fmt.Fprintf(response, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[]}`, version)
		case request.URL.Path == "/apis/"+version+path && request.URL.Query().Get("labelSelector") == selector:
			value, err := os.ReadFile(file)
			if err != nil {
				http.Error(response, err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprintf(response, `{"kind":"ExternalMetricValueList","apiVersion":%q,"metadata":{},"items":[
				{"metricName":"asked","metricLabels":{},"timestamp":"2026-01-01T00:00:00Z","value":%q}]}`, version, value)
		default:
			http.NotFound(response, request)
		}
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	server.Listener.Close()
	server.Listener = listener
	server.StartTLS()
	select {}
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(2)
}
