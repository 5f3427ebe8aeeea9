// An issuer built on oidc-provider, a certified library, with the library's own sign-in pages. Arguments: the folder
// in which the library is installed, the redirect address, the client's id and secret. Prints the issuer's address.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const [folder, back, client_id, client_secret] = process.argv.slice(2);
const { Provider } = await import(createRequire(`${folder}/`).resolve('oidc-provider'));
const server = createServer();
server.listen(0, '127.0.0.1', () => {
  // To a browser, localhost is another site than 127.0.0.1.
  const issuer = `http://localhost:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id, client_secret, redirect_uris: [back], response_types: ['code'], grant_types: ['authorization_code'] }],
    // Any login is an account. Only the user info has its address.
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: `account of ${id}`, email: id, email_verified: true }) }),
    claims: { openid: ['sub'], email: ['email', 'email_verified'] },
    pkce: { required: () => true },
    cookies: { keys: ['of this test'] },
  });
  server.on('request', provider.callback());
  console.log(issuer);
});
