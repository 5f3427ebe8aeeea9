"use strict";
// Tells the platform, which opened this page in a frame or a window, that the registration has ended. The message
// holds nothing secret, and the platform's page may be at another address than the platform: so it is for anybody.
(window.opener || window.parent).postMessage({ subject: "org.imsglobal.lti.close" }, "*");
