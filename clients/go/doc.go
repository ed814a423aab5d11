// Package clearseal verifies an AWS Nitro Enclave before it sends anything, and then seals every request to it.
//
// [Connect] judges the enclave by a trust policy and returns a [Session]. [Session.Embed] returns vectors, and
// [Session.RoundTripper] is a transport for an http.Client, such as that of OpenAI's client. The receipt of each answer is verified
// before the answer is returned; [VerifyReceipt] verifies one later, without a network, [VerifyLogged] also its place in the enclave's
// log, and [VerifyVector] a single row of an index.
//
// [Appraise], [Inspect], [ParseDocument], [ParseManifest] and [ParseEvidence] read and judge evidence alone.
package clearseal
